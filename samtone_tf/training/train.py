"""`train`: configuration in, run folder out."""

import sys
from pathlib import Path

import keras

from samtone_tf.config import LossConfig, RunConfig, TrainConfig
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.sources import load_data
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.distribution import check_batch, distribute, make_strategy
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.optimizers.schedules import LinearDecay
from samtone_tf.training.callbacks import Report, SaveEvery, step_of
from samtone_tf.training.model_card import write_model_card
from samtone_tf.training.resume import (
    check_resumable,
    check_same_data,
    checkpoint_identity,
    dump_config,
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
from samtone_tf.workers import Workers


def train(
    config: RunConfig,
    out: str | Path,
    *,
    data: RetrievalData | None = None,
    tokenizer: Tokenizer | None = None,
    resume: bool = False,
) -> DualEncoder:
    """Trains a dual encoder and writes its run folder.

    With several workers each calls this with the same arguments. The chief alone writes and
    prints; to resume, all must see its folder.

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
        ConnectionError: another worker is lost; resume on all of them.
    """
    workers = Workers(make_strategy(config.train.strategy, config.train.tpu))
    with workers.explain_failures():
        return _train(workers, config, Path(out), data, tokenizer, resume)


def _train(
    workers: Workers,
    config: RunConfig,
    out: Path,
    data: RetrievalData | None,
    tokenizer: Tokenizer | None,
    resume: bool,
) -> DualEncoder:
    size = config.train.batch_size
    rows = check_batch(workers.strategy, size, config.train.gradient_cache_chunk)
    workers.agree({"resume": resume, "configuration": dump_config(config)})
    if resume:
        tokenizer = load_tokenizer(check_resumable(out, config))
    else:
        if workers.is_chief:
            check_new_run(out)
        if config.data.vocabulary and tokenizer is None:
            tokenizer = Tokenizer.from_file(config.data.vocabulary)  # fails early, if it does
    if config.train.deterministic:
        from samtone_tf import tensorflow_step

        tensorflow_step.enable_determinism()
    data = data or load_data(config.data.source, config.data.split)
    if tokenizer is None:
        workers.say(f"training a vocabulary on {len(data.documents)} documents ...")
        tokenizer = Tokenizer(workers.from_chief(lambda: make_tokenizer(config, data).model))
    batches = make_batches(config, data, tokenizer)
    model = (go_on if resume else start)(workers, out, config, tokenizer, batches)
    first_step = step_of(model)
    workers.agree({"step": first_step})
    if first_step >= config.train.steps:
        workers.say(f"{out} has all its {config.train.steps} steps already")
        return model
    replicas = (
        f"{workers.strategy.num_replicas_in_sync}, each with {rows} of a batch's {size} pairs"
    )
    facts = {"replicas": replicas, **describe(config, data, batches, model)}
    workers.say(*(f"{name}: {value}" for name, value in facts.items()))
    report = fit(model, batches, config.train, out, first_step)
    if workers.is_chief:
        write_model_card(out, config, facts, report.lines[-1])
    return model


def start(
    workers: Workers, out: Path, config: RunConfig, tokenizer: Tokenizer, batches: PairBatches
) -> DualEncoder:
    """An untrained model, and the chief's new run folder."""
    workers.agree({"data": batches.fingerprint})  # before weights of other shapes are exchanged
    with workers.strategy.scope():
        model = make_model(config, tokenizer)
        if workers.is_chief:
            make_run_folder(out, config, tokenizer, batches.fingerprint)
    return model


def go_on(
    workers: Workers, run: Path, config: RunConfig, tokenizer: Tokenizer, batches: PairBatches
) -> DualEncoder:
    """The model of a run folder as it was saved last."""
    check_same_data(run, batches.fingerprint)
    workers.agree({"checkpoint": checkpoint_identity(run)})
    with workers.strategy.scope():
        warn_of_changes(run)
        # Killed before its first save, a run begins again: equal weights follow from the seed.
        model = last_checkpoint(run) or make_model(config, tokenizer)
    step = step_of(model)
    if workers.is_chief:
        forget_reports_after(run, step)
    workers.say(f"going on with {run} after step {step}")
    return model


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
    """A compiled, untrained model; its weights follow from the seed."""
    keras.utils.set_random_seed(config.train.seed)
    model = DualEncoder(
        config.model.encoder(tokenizer.vocabulary_size),
        architecture=config.model.architecture,
        embedding_dim=config.model.vector_dim,
        seed=config.train.seed,
        gradient_cache_chunk=config.train.gradient_cache_chunk,
        dtype=config.model.dtype,
    )
    model.compile(
        optimizer=make_optimizer(config.train),
        loss=make_loss(config.loss),
        jit_compile=config.train.jit_compile,
    )
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
    strategy = model.distribute_strategy
    chief, on_terminal = Workers(strategy).is_chief, sys.stdout.isatty()
    # Every worker has the report: the running means must start anew on all of them.
    report = Report(
        run / "metrics.jsonl" if chief else None,
        config.report_every,
        config.steps,
        make_schedule(config),
        print_lines=chief and not on_terminal,
    )
    save = SaveEvery(run if chief else None, config.save_every, config.save_minutes)
    board = keras.callbacks.TensorBoard(
        run / "tensorboard", update_freq=config.report_every, write_graph=False
    )
    try:
        model.fit(
            distribute(strategy, batches.dataset(first_step), config.batch_size),
            steps_per_epoch=config.steps - first_step,
            shuffle=False,
            verbose=1 if chief and on_terminal else 0,
            # The board before the report, which resets the means that both read.
            callbacks=[*([board] if chief else []), report, save],
        )
    except KeyboardInterrupt as interrupt:
        if not chief:
            raise
        save_model(model, run)
        step = step_of(model)
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
