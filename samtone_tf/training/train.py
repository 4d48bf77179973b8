"""`train`: configuration in, run folder out."""

import sys
from pathlib import Path

import keras

from samtone_tf.config import LossConfig, RunConfig, TrainConfig
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.sources import load_data
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.optimizers.schedules import LinearDecay
from samtone_tf.training.callbacks import Report, SaveEvery
from samtone_tf.training.initial_weights import initial_tokenizer, start_from
from samtone_tf.training.model_card import write_model_card
from samtone_tf.training.resume import (
    check_resumable,
    check_same_data,
    forget_reports_after,
    last_checkpoint,
    warn_of_changes,
)
from samtone_tf.training.run_folder import (
    check_new_run,
    load_tokenizer,
    make_run_folder,
    save_model,
)


def train(
    config: RunConfig,
    out: str | Path,
    *,
    data: RetrievalData | None = None,
    tokenizer: Tokenizer | None = None,
    resume: bool = False,
) -> DualEncoder:
    """Trains a dual encoder and writes its run folder.

    Args:
        config: what to train, on what, for how long.
        out: the run folder; must not exist, or be empty.
        data: what `config.data.source` names, if it was read already.
        tokenizer: used instead of `config.data.vocabulary`, or of training one.
        resume: go on with the run in `out`, from its last checkpoint.

    Returns:
        The trained model; `load_model(out)` gives it again.

    Raises:
        FileExistsError: `out` holds something.
        FileNotFoundError: `resume`, and no run there.
        ValueError: bad data, another configuration than the run's, or a batch larger than the data.
        FloatingPointError: the loss became NaN or infinite.
    """
    if resume:
        tokenizer = load_tokenizer(check_resumable(out, config))
    else:
        check_new_run(out)
        if config.data.vocabulary and tokenizer is None:
            tokenizer = Tokenizer.from_file(config.data.vocabulary)  # fails early, if it does
        if config.model.init:
            tokenizer = initial_tokenizer(config.model.init, tokenizer)
    if config.train.deterministic:
        from samtone_tf import tensorflow_step

        tensorflow_step.enable_determinism()
    data = data or load_data(config.data.source, config.data.split)
    if tokenizer is None:
        print(f"training a vocabulary on {len(data.documents)} documents ...", flush=True)
        tokenizer = make_tokenizer(config, data)
    batches = make_batches(config, data, tokenizer)
    run, model = (go_on if resume else start)(Path(out), config, tokenizer, batches)
    first_step = int(model.optimizer.iterations)
    if first_step >= config.train.steps:
        print(f"{run} has all its {config.train.steps} steps already")
        return model
    facts = describe(config, data, batches, model)
    for name, value in facts.items():
        print(f"{name}: {value}", flush=True)
    report = fit(model, batches, config.train, run, first_step)
    write_model_card(run, config, facts, report.lines[-1])
    return model


def start(
    out: Path, config: RunConfig, tokenizer: Tokenizer, batches: PairBatches
) -> tuple[Path, DualEncoder]:
    """A new run folder and an untrained model."""
    model = make_model(config, tokenizer)
    run = make_run_folder(out, config, tokenizer, batches.fingerprint)
    if config.model.init:
        # Saved at once: from here on the run needs no other folder, not even to be resumed.
        model.optimizer.build(model.trainable_variables)
        save_model(model, run)
    return run, model


def go_on(
    run: Path, config: RunConfig, tokenizer: Tokenizer, batches: PairBatches
) -> tuple[Path, DualEncoder]:
    """A run folder that is there, and its model as it was saved last."""
    check_same_data(run, batches.fingerprint)
    warn_of_changes(run)
    # Killed before its first save, a run begins again: with the same weights as before.
    model = last_checkpoint(run) or make_model(config, tokenizer)
    step = int(model.optimizer.iterations)
    forget_reports_after(run, step)
    print(f"going on with {run} after step {step}", flush=True)
    return run, model


def make_tokenizer(config: RunConfig, data: RetrievalData) -> Tokenizer:
    """A vocabulary trained on the corpus and the training queries."""
    queries = (data.queries[query_id] for query_id in data.qrels if query_id in data.queries)
    return Tokenizer.train([*queries, *data.documents.values()], config.data.vocabulary_size)


def make_batches(config: RunConfig, data: RetrievalData, tokenizer: Tokenizer) -> PairBatches:
    """The training batches that a configuration asks for."""
    return PairBatches(
        data,
        tokenizer,
        batch_size=config.train.batch_size,
        query_length=config.data.query_length,
        document_length=config.data.document_length,
        num_negatives=config.data.num_negatives,
        seed=config.train.seed,
        masks=tuple(config.loss.masks),
        max_positives=config.data.max_positives,
    )


def make_model(config: RunConfig, tokenizer: Tokenizer) -> DualEncoder:
    """A compiled, untrained model; its weights follow from the seed, or from `model.init`."""
    keras.utils.set_random_seed(config.train.seed)
    model = DualEncoder(
        config.model.encoder(tokenizer.vocabulary_size),
        architecture=config.model.architecture,
        embedding_dim=config.model.vector_dim,
        seed=config.train.seed,
        gradient_cache_chunk=config.train.gradient_cache_chunk,
        freeze=config.model.freeze,
        dtype=config.model.dtype,
    )
    model.compile(
        optimizer=make_optimizer(config.train),
        loss=make_loss(config.loss),
        jit_compile=config.train.jit_compile,
    )
    if config.model.init:
        start_from(model, config.model.init)
    return model


def make_loss(config: LossConfig) -> InBatchSoftmax:
    """The loss that a configuration names."""
    common = dict(
        temperature=config.temperature,
        bidirectional=config.bidirectional,
        directions=config.directions,
        masks=config.masks,
        negatives_scope=config.negatives_scope,
    )
    if config.name == "in_batch_softmax":
        return InBatchSoftmax(**common)
    return SamToNe(same_tower=config.same_tower, **common)


def make_optimizer(config: TrainConfig) -> keras.optimizers.Optimizer:
    """Adam, or Adafactor as T5 has it; the rate decaying linearly to 0 at the last step."""
    kind = {"adam": keras.optimizers.Adam, "adafactor": Adafactor}
    return kind[config.optimizer](make_schedule(config))


def make_schedule(config: TrainConfig) -> LinearDecay:
    """The learning rate as a function of the step."""
    return LinearDecay(config.peak_rate, config.steps, config.warmup_steps)


def fit(
    model: DualEncoder, batches: PairBatches, config: TrainConfig, run: Path, first_step: int = 0
) -> Report:
    """Runs the steps, with a progress bar on a terminal and report lines elsewhere.

    An interrupt saves the model before it goes on its way.
    """
    on_terminal = sys.stdout.isatty()
    report = Report(
        run / "metrics.jsonl",
        config.report_every,
        config.steps,
        make_schedule(config),
        print_lines=not on_terminal,
    )
    save = SaveEvery(run, config.save_every, config.save_minutes)
    board = keras.callbacks.TensorBoard(
        run / "tensorboard", update_freq=config.report_every, write_graph=False
    )
    # The board before the report, which resets the means that both read.
    try:
        model.fit(
            batches.dataset(first_step, config.steps - first_step),
            shuffle=False,
            verbose=1 if on_terminal else 0,
            callbacks=[board, report, save],
        )
    except KeyboardInterrupt as interrupt:
        save_model(model, run)
        step = int(model.optimizer.iterations)
        raise KeyboardInterrupt(f"the model of step {step} is saved in {run}") from interrupt
    finally:
        save.restore_handler()
    return report


def describe(
    config: RunConfig, data: RetrievalData, batches: PairBatches, model: DualEncoder
) -> dict[str, str | int | float]:
    """What a user wants to read before the first step: counts, negatives, rate."""
    size = config.train.batch_size
    others = size if config.loss.negatives_scope == "global" else 1
    hard = round(batches.statistics.get("negatives_per_query", 0) * others)
    same_tower = config.loss.name == "samtone" and config.loss.same_tower != "document"
    rate = make_schedule(config.train)
    ends = (0, config.train.steps // 2, config.train.steps)
    return {
        "training pairs": batches.num_pairs,
        "documents": len(data.documents),
        "parameters": f"{model.count_params():,}",
        "steps": f"{config.train.steps} of {size} pairs "
        f"({config.train.steps / batches.steps_per_epoch:.1f} epochs)",
        "negatives per query": f"{size - 1 + hard} documents"
        + (f" and {size - 1} queries" if same_tower else ""),
        "temperature": f"{config.loss.temperature} (a scale of {1 / config.loss.temperature:g})",
        "learning rate": "first, middle, end: "
        + ", ".join(f"{float(rate(step)):.2e}" for step in ends),
        **{f"note {i}": note for i, note in enumerate((*data.notes, *batches.notes), 1)},
    }
