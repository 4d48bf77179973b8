"""Memory while the encoder of a published checkpoint is loaded.

Makes a whole T5 v1.1 base (encoder, decoder and head: about 1 GB), and loads its encoder from every
kind of file, each in a process of its own. Peak is the largest resident set (VmHWM) less what the
process had before, TensorFlow and Keras imported; `over` is what of it is not the encoder.

    python benchmarks/checkpoint_memory.py
    python benchmarks/checkpoint_memory.py --folder /big/disk --layers 24 --hidden 1024
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = ("safetensors", "shards", "table twice", "bfloat16", "tensorflow", "pytorch")


def main() -> None:
    """Runs every case and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--folder", type=Path, help="where files go; a temporary one by default")
    parser.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)  # what, case, folder
    arguments = parser.parse_args()
    config = encoder_config(arguments.layers, arguments.hidden)
    if arguments.child:
        what, case, folder = arguments.child
        work = {"write": write, "load": load}[what]
        print(json.dumps(work(case, Path(folder), config)))
        return
    print(f"{'case':<12}{'files/MB':>9}{'encoder/MB':>11}{'peak/MB':>9}{'over/MB':>9}{'s':>7}")
    for case in arguments.cases:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            print(run(case, folder, arguments), flush=True)


def run(case: str, folder: str, arguments: argparse.Namespace) -> str:
    """One line of the table, written and loaded by processes of their own."""
    numbers = ["--layers", str(arguments.layers), "--hidden", str(arguments.hidden)]
    for what in ("write", "load"):
        command = [sys.executable, __file__, *numbers, "--child", what, case, folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return f"{case:<12}  failed: {done.stderr.strip().splitlines()[-1]}"
    found = json.loads(done.stdout.splitlines()[-1])
    size = sum(path.stat().st_size for path in Path(folder).iterdir()) / 1e6
    over = found["peak"] - found["encoder"]
    return (
        f"{case:<12}{size:9.0f}{found['encoder']:11.0f}{found['peak']:9.0f}{over:9.0f}"
        f"{found['seconds']:7.1f}"
    )


def encoder_config(num_layers: int, hidden_dim: int):
    """The numbers; those of T5 v1.1 base unless told otherwise."""
    from samtone_tf.encoder_config import EncoderConfig

    return EncoderConfig(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        num_heads=hidden_dim // 64,
        head_dim=64,
        feedforward_dim=hidden_dim * 8 // 3,
    )


def write(case: str, folder: Path, config) -> dict:
    """Writes the checkpoint of a case."""
    import numpy as np

    from samtone_tf.checkpoints.source import encoder_shapes
    from samtone_tf.checkpoints.t5_names import huggingface_names, is_transposed, mesh_names

    random = np.random.default_rng(0)
    mesh = case == "tensorflow"
    names = (mesh_names if mesh else huggingface_names)(config)
    tensors = {}
    for ours, shape in encoder_shapes(config).items():
        turned = ours.endswith("position_bias/embeddings") if mesh else is_transposed(ours)
        tensor = random.standard_normal(shape[::-1] if turned else shape, dtype=np.float32)
        tensors[names[ours]] = tensor
    for name, tensor in list(tensors.items()):
        if name.startswith("encoder"):
            tensors[name.replace("encoder", "decoder", 1)] = tensor.copy()
            if "SelfAttention" in name:  # the decoder has this twice
                cross = name.replace("encoder", "decoder", 1).replace("Self", "EncDec")
                tensors[cross] = tensor.copy()
    table = tensors[names["token_embedding/embeddings"]]
    if mesh:
        tensors["decoder/logits/kernel"] = table.T.copy()
        return write_tensorflow(folder, tensors)
    tensors["lm_head.weight"] = table.copy()
    if case == "table twice":
        tensors["encoder.embed_tokens.weight"] = table.copy()
    write_settings(folder, config)
    return write_huggingface(case, folder, tensors)


def write_settings(folder: Path, config) -> None:
    """`config.json` of a T5 v1.1."""
    settings = {
        "model_type": "t5",
        "d_model": config.hidden_dim,
        "d_kv": config.head_dim,
        "d_ff": config.feedforward_dim,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "vocab_size": config.vocabulary_size,
        "feed_forward_proj": "gated-gelu",
    }
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_huggingface(case: str, folder: Path, tensors: dict) -> dict:
    """The weights in the files of a case."""
    if case == "pytorch":
        import torch

        state = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
        torch.save(state, folder / "pytorch_model.bin")
        return {}
    from safetensors.numpy import save_file

    if case == "bfloat16":
        import ml_dtypes

        tensors = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in tensors.items()}
    if case != "shards":
        save_file(tensors, folder / "model.safetensors")
        return {}
    places = {}
    for i in range(4):
        file = f"model-{i + 1:05d}-of-00004.safetensors"
        part = {name: tensors[name] for name in sorted(tensors)[i::4]}
        save_file(part, folder / file)
        places |= dict.fromkeys(part, file)
    index = json.dumps({"weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    return {}


def write_tensorflow(folder: Path, tensors: dict) -> dict:
    """The variables as T5's own code saves them."""
    import tensorflow as tf

    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(folder / "model.ckpt-1000000"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    return {}


def load(case: str, folder: Path, config) -> dict:
    """Loads the encoder; MB above the start, and seconds."""
    from samtone_tf.checkpoints.assign import load_t5
    from samtone_tf.checkpoints.open import open_source
    from samtone_tf.towers.encoder import T5Encoder

    T5Encoder("mini").build()  # TensorFlow's own start
    if case == "pytorch":
        import torch  # noqa: F401
    mesh = case == "tensorflow"
    name = f"t5_tf:{folder}/model.ckpt-1000000" if mesh else f"hf:{folder}"
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
    start = time.perf_counter()
    encoder = load_t5(open_source(name))
    return {
        "seconds": time.perf_counter() - start,
        "peak": status("VmHWM") - before,
        "encoder": encoder.count_params() * 4 / 1e6,
    }


def status(name: str) -> float:
    """A number of /proc/self/status, in MB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024 / 1e6


if __name__ == "__main__":
    main()
