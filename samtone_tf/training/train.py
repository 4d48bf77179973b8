"""`train`: configuration in, run folder out."""

import sys
from pathlib import Path

import keras

from samtone_tf.checkpoints.assign import assign_towers
from samtone_tf.checkpoints.source import Source
from samtone_tf.checks import check_vocabulary
from samtone_tf.config import LossConfig, RunConfig, TrainConfig
from samtone_tf.data.cache import Cache, default_folder
from samtone_tf.data.columns import Joined
from samtone_tf.data.pipeline import PairBatches
from samtone_tf.data.records import RetrievalData
from samtone_tf.data.table import Table, as_table
from samtone_tf.data.tokenizer import Tokenizer
from samtone_tf.distribution import check_batch, distribute, make_strategy
from samtone_tf.dual_encoder import DualEncoder
from samtone_tf.losses.base import DualEncoderLoss
from samtone_tf.losses.contrastive import InBatchSoftmax, SamToNe
from samtone_tf.losses.gte import Gte
from samtone_tf.losses.pair import Pair
from samtone_tf.losses.triplet import Triplet
from samtone_tf.optimizers.adafactor import Adafactor
from samtone_tf.optimizers.schedules import LinearDecay
from samtone_tf.training.callbacks import Progress, Report, SaveEvery, Validate, step_of
from samtone_tf.training.initial_weights import (
    initial_tokenizer,
    open_initial,
    resolve,
    resolve_as,
)
from samtone_tf.training.model_card import write_model_card
from samtone_tf.training.overview import as_lines, describe
from samtone_tf.training.resume import (
    check_resumable,
    check_same_data,
    check_same_model,
    checkpoint_identity,
    dump_config,
    forget_reports_after,
    last_checkpoint,
    warn_of_changes,
)
from samtone_tf.training.run_folder import (
    MODEL_FILE,
    check_new_run,
    load_config,
    load_tokenizer,
    make_run_folder,
    save_model,
)
from samtone_tf.training.run_log import RunLog
from samtone_tf.training.validation import Validation, read_data
from samtone_tf.workers import Workers


def train(
    config: RunConfig,
    out: str | Path,
    *,
    data: RetrievalData | None = None,
    tokenizer: Tokenizer | None = None,
    validation_data: RetrievalData | None = None,
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
        validation_data: queries, documents and judgements to validate on; unless given,
            `config.validation` says which. Must not be what the model is judged on later.
        resume: go on with the run in `out`, from its last checkpoint.

    Returns:
        The trained model, as the last step left it; `load_model(out)` gives it again.

    Raises:
        FileExistsError: `out` holds something.
        FileNotFoundError: `resume`, and no run there.
        ValueError: bad data, another configuration than the run's, or a batch larger than the data.
        FloatingPointError: the loss became NaN or infinite.
        ConnectionError: another worker is lost; resume on all of them.
    """
    workers = Workers(make_strategy(config.train.strategy, config.train.tpu))
    with workers.explain_failures():
        return _train(workers, config, Path(out), data, tokenizer, validation_data, resume)


def _train(
    workers: Workers,
    config: RunConfig,
    out: Path,
    data: RetrievalData | None,
    tokenizer: Tokenizer | None,
    validation_data: RetrievalData | None,
    resume: bool,
) -> DualEncoder:
    check_batch(workers.strategy, config.train.batch_size, config.train.gradient_cache_chunk)
    workers.agree({"resume": resume, "configuration": dump_config(config)})
    source = None
    if resume:
        config = as_started(out, config)
        tokenizer = load_tokenizer(check_resumable(out, config))
    else:
        config, tokenizer, source = check_start(workers, out, config, tokenizer)
    if config.train.deterministic:
        from samtone_tf import tensorflow_step

        tensorflow_step.enable_determinism()
    cache = open_cache(config)
    data, held_out = read_data(config, data, validation_data, cache)
    if tokenizer is None:
        workers.say(f"training a vocabulary on {len(data.documents)} documents ...")
        tokenizer = Tokenizer(workers.from_chief(lambda: make_tokenizer(config, data).model))
    batches = make_batches(config, data, tokenizer, cache)
    if cache:
        workers.say(f"token cache: {cache.report()}")
    if resume:
        model = go_on(workers, out, config, tokenizer, batches)
    else:
        model = start(workers, out, config, tokenizer, batches, source)
    source = None  # its weights are the model's now
    first_step = step_of(model)
    workers.agree({"step": first_step})
    # The model card is what a run writes last; a damaged checkpoint is trained once more.
    if (out / "README.md").is_file() and (out / MODEL_FILE).is_file():
        workers.say(f"{out} has all its {first_step} steps already")
        return model
    validation = Validation(model, held_out, tokenizer, config.data) if held_out else None
    facts = describe(config, data, batches, model, make_schedule(config.train), held_out)
    workers.say(as_lines(facts))
    found = fit(workers, model, batches, config, out, validation)
    if found:
        workers.say(as_lines(found))
    if workers.is_chief:
        write_model_card(out, config, facts | found, RunLog(out).last_report())
    return model


def check_start(
    workers: Workers, out: Path, config: RunConfig, tokenizer: Tokenizer | None
) -> tuple[RunConfig, Tokenizer | None, Source | None]:
    """A new run's whole configuration, and the tokenizer and weights it is told to start from.

    Fails before any work, if it does.
    """
    if workers.is_chief:
        check_new_run(out)
    if config.data.vocabulary and tokenizer is None:
        tokenizer = Tokenizer.from_file(config.data.vocabulary)
    if config.model.init is None:
        return config, tokenizer, None
    source = open_initial(config.model.init)
    return resolve(config, source), initial_tokenizer(source, tokenizer), source


def as_started(run: Path, config: RunConfig) -> RunConfig:
    """The configuration with what was not set, and what `model.init` gave when the run began."""
    if config.model.init is None or not (run / "config.yaml").is_file():
        return config
    return resolve_as(config, load_config(run))


def start(
    workers: Workers,
    out: Path,
    config: RunConfig,
    tokenizer: Tokenizer,
    batches: PairBatches,
    source: Source | None,
) -> DualEncoder:
    """An untrained model, and the chief's new run folder."""
    workers.agree({"data": batches.fingerprint})  # before weights of other shapes are exchanged
    with workers.strategy.scope():
        model = make_model(config, tokenizer, source)
        model.optimizer.build(model.trainable_variables)
        if workers.is_chief:
            make_run_folder(out, config, tokenizer, batches.fingerprint)
    if config.model.init and workers.is_chief:
        # Saved at once: from here on the run needs no other folder, not even to be resumed.
        save_model(model, out)
    return model


def go_on(
    workers: Workers, run: Path, config: RunConfig, tokenizer: Tokenizer, batches: PairBatches
) -> DualEncoder:
    """The model of a run folder as it was saved last."""
    workers.agree({"checkpoint": checkpoint_identity(run)})
    with workers.strategy.scope():
        model = last_checkpoint(run)
        if model is None:
            # Killed before its first save, a run begins again: with the same weights as before.
            source = open_initial(config.model.init) if config.model.init else None
            model = make_model(config, tokenizer, source)
        else:
            asked = make_model(config, tokenizer)
            check_vocabulary(tokenizer.vocabulary_size, model.encoder_config.vocabulary_size)
            check_same_model(model, asked, run)
        check_same_data(run, batches.fingerprint)
        warn_of_changes(run)
    step = step_of(model)
    if workers.is_chief:
        forget_reports_after(run, step)
    workers.say(f"going on with {run} after step {step}")
    return model


def make_tokenizer(config: RunConfig, data: RetrievalData | Table) -> Tokenizer:
    """A vocabulary trained on the corpus and the training queries."""
    table = as_table(data)
    texts = Joined(table.judged_texts(), table.documents.texts)
    return Tokenizer.train(texts, config.data.vocabulary_size)


def open_cache(config: RunConfig) -> Cache | None:
    """Where token ids are kept between runs; None keeps them in memory."""
    if config.data.cache == "memory":
        return None
    return Cache(config.data.cache or default_folder())


def make_batches(
    config: RunConfig,
    data: RetrievalData | Table,
    tokenizer: Tokenizer,
    cache: Cache | None = None,
) -> PairBatches:
    """The training batches that a configuration asks for."""
    return PairBatches(
        data,
        tokenizer,
        batch_size=config.train.batch_size,
        query_length=config.data.query_length,
        document_length=config.data.document_length,
        query_prompt=config.data.query_prompt or "",
        document_prompt=config.data.document_prompt or "",
        num_negatives=config.data.num_negatives,
        seed=config.train.seed,
        masks=tuple(config.loss.masks),
        max_positives=config.data.max_positives,
        log_q=bool(config.loss.log_q),
        no_duplicates=config.data.no_duplicates,
        cache=cache,
    )


def make_model(
    config: RunConfig, tokenizer: Tokenizer, source: Source | None = None
) -> DualEncoder:
    """A compiled, untrained model; its weights follow from the seed, or are the source's."""
    encoder = config.model.encoder(tokenizer.vocabulary_size)
    check_vocabulary(tokenizer.vocabulary_size, encoder.vocabulary_size)
    keras.utils.set_random_seed(config.train.seed)
    model = DualEncoder(
        encoder,
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
        steps_per_execution=config.train.steps_per_execution,
    )
    if source is not None:
        assign_towers(model.query_tower, model.document_tower, source)
    return model


def make_loss(config: LossConfig) -> DualEncoderLoss:
    """The loss that a configuration names."""
    kind: dict[str, type[DualEncoderLoss]] = {
        "samtone": SamToNe,
        "in_batch_softmax": InBatchSoftmax,
        "pair": Pair,
        "triplet": Triplet,
        "gte": Gte,
    }
    return kind[config.name](**config.arguments)


def make_optimizer(config: TrainConfig) -> keras.optimizers.Optimizer:
    """Adam, or Adafactor as T5 has it; the rate decaying linearly to 0 at the last step."""
    kind = {"adam": keras.optimizers.Adam, "adafactor": Adafactor}
    return kind[config.optimizer](make_schedule(config))


def make_schedule(config: TrainConfig) -> LinearDecay:
    """The learning rate as a function of the step."""
    return LinearDecay(config.peak_rate, config.steps, config.warmup_steps)


def fit(
    workers: Workers,
    model: DualEncoder,
    batches: PairBatches,
    config: RunConfig,
    run: Path,
    validation: Validation | None = None,
) -> dict[str, str]:
    """Runs the steps that are left, with a progress bar on a terminal and report lines elsewhere.

    Returns:
        What validation found, for the model card.
    """
    # All workers report and validate, the chief alone writes: the running means start anew on
    # all of them, and encoding a corpus takes all replicas.
    chief, on_terminal = workers.is_chief, sys.stdout.isatty()
    steps, log = config.train.steps, RunLog(run, writes=chief)
    report = Report(
        log,
        config.train.report_every,
        steps,
        make_schedule(config.train),
        config.train.batch_size,
        print_lines=chief and not on_terminal,
    )
    save = SaveEvery(run if chief else None, config.train.save_every, config.train.save_minutes)
    callbacks = [report, *([Progress()] if chief and on_terminal else []), save]
    if validation is None:
        run_steps(workers, model, batches, steps, callbacks)
        return {}
    settings = config.validation
    validate = Validate(
        validation, log, settings.measure, config.validation_every, steps, settings.patience, save
    )
    validate.catch_up(model)
    if not validate.has_lost_patience:
        run_steps(workers, model, batches, steps, [*callbacks, validate])
    return validate.facts()


def run_steps(
    workers: Workers,
    model: DualEncoder,
    batches: PairBatches,
    steps: int,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Trains up to `steps`; an interrupt saves the model before it goes on its way."""
    first_step = step_of(model)
    left = steps - first_step
    if not left:
        return
    save = next(callback for callback in callbacks if isinstance(callback, SaveEvery))
    # On several replicas Keras warns of a dataset that ends, and TensorFlow asks every worker at
    # every step whether its own has. One that never ends would be overrun by several steps per
    # execution, which only one device and the TPU can do.
    endless = workers.strategy.num_replicas_in_sync > 1 and model.steps_per_execution == 1
    dataset = batches.dataset(first_step, None if endless else left)
    try:
        model.fit(
            distribute(workers.strategy, dataset, batches.batch_size),
            steps_per_epoch=left if endless else None,
            shuffle=False,
            verbose=1 if workers.is_chief and sys.stdout.isatty() else 0,
            callbacks=callbacks,
        )
    except KeyboardInterrupt as interrupt:
        if save.run is None:
            raise
        save_model(model, save.run)
        step = step_of(model)
        raise KeyboardInterrupt(f"the model of step {step} is saved in {save.run}") from interrupt
    finally:
        save.restore_handler()
