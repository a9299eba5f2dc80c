import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { Running } from '../app/app.js'
import { RELOADED } from '../app/live-options.js'
import { Mutex } from '../lib/concurrency.js'
import { ContentWatch } from '../lib/content-watch.js'
import { CodedError } from '../lib/errors.js'
import { formatOptionProblem, optionEntries } from '../options/catalogue.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { tellWarnings } from './greeting.js'
import { forKeeping, printProblems } from './report.js'
import type { ServiceManager } from './service-manager.js'

/** Why files are read again that are watched now and were not when they were read. */
const FOLLOWED = 'files that the site file names'
/** Reason for reading files again after an interruption of watching them. */
const UNWATCHED = 'files that may have changed while they were not watched'

/** Applies the files again when one of them changes and on SIGHUP; one reload ends before the next begins. */
export class Reloading {
  readonly #input: LoadInput
  readonly #options: Options
  /** Path of the options file. */
  readonly #file: string | undefined
  readonly #log: Logger
  readonly #manager: ServiceManager
  readonly #hangup = () => void this.#request('SIGHUP')
  /** By path: the files that options name, and those that the site file names. */
  readonly #watches = new Map<string, ContentWatch>()
  #lasting: ReadonlySet<string> = new Set()
  #app: Running | undefined
  #early: string | undefined
  readonly #mutex = new Mutex()

  private constructor(input: LoadInput, { options, file }: LoadedOptions, log: Logger, manager: ServiceManager) {
    this.#manager = manager
    this.#input = input
    this.#options = options
    this.#file = file
    this.#log = log
  }

  /** Watches the files from now on; changes wait for `begin`. */
  static async prepare(
    input: LoadInput,
    loaded: LoadedOptions,
    log: Logger,
    manager: ServiceManager
  ): Promise<Reloading> {
    const reloading = new Reloading(input, loaded, log, manager)
    reloading.#lasting = namedBy(loaded.options, loaded.file)
    for (const path of reloading.#lasting) reloading.#watches.set(path, await reloading.#watch(path))
    process.on('SIGHUP', reloading.#hangup)
    return reloading
  }

  /** Files may have changed before they were watched: `begin` reads them. */
  missed(): void {
    this.#early ??= UNWATCHED
  }

  /** Changes are applied from now on; those of files that the site file names count from their first reading. */
  begin(app: Running): void {
    this.#app = app
    const { files } = app.started
    if (files.length === 0 && this.#early === undefined) return
    const followed = files.length === 0 ? Promise.resolve(false) : this.#mutex.run(() => this.#follow(files))
    const request = () => this.#request(this.#early ?? FOLLOWED)
    followed.then(request).catch((error: unknown) => this.#log.error({ err: error }, 'watching files failed'))
  }

  async close(): Promise<void> {
    process.off('SIGHUP', this.#hangup)
    await Promise.all([...this.#watches.values()].map((watch) => watch.close()))
    // A reload that is under way ends first.
    await this.#mutex.run(async () => undefined)
    await Promise.all([...this.#watches.values()].map((watch) => watch.close()))
  }

  #watch(path: string): Promise<ContentWatch> {
    const failed = (error: unknown) => this.#log.error({ err: error, file: path }, 'watching a file failed')
    const lost = (code: string) =>
      this.#log.error(
        { file: path, code },
        'a configuration file cannot be read any more; its last contents stay active'
      )
    const restless = () =>
      this.#log.warn(
        { file: path },
        'a configuration file keeps changing and is read every half second; write it in one step'
      )
    return ContentWatch.start(path, () => this.#request(path), failed, { lost, restless })
  }

  async #request(cause: string): Promise<void> {
    if (this.#app === undefined) {
      this.#early = cause
      return
    }
    const app = this.#app
    await this.#mutex
      .run(async () => {
        await this.#manager.reloading()
        await this.#reload(app, cause)
      })
      .catch((error: unknown) => {
        this.#log.error({ err: error, cause }, 'reload failed; nothing changed')
      })
    await this.#manager.ready()
  }

  async #reload(app: Running, cause: string): Promise<void> {
    const options = await this.#readOptions()
    if (options === undefined) {
      this.#log.error({ cause }, 'reload failed, the previous configuration stays active')
      return
    }
    let applied: Awaited<ReturnType<Running['reload']>>
    try {
      applied = await app.reload(options)
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      this.#log.error({ cause, code: error.code }, `reload failed, nothing changed: ${error.message}`)
      return
    }
    const { revision } = applied
    if (applied.ok) this.#lasting = new Set([...namedBy(this.#options, this.#file), ...namedBy(options, this.#file)])
    const fresh = await this.#follow(applied.named)
    if (!applied.ok) {
      for (const { host, port, reason } of applied.ports) {
        this.#log.error({ cause, host, port, reason }, 'a listener cannot be opened')
      }
      printProblems(forKeeping(applied.problems, process.stderr), process.stderr)
      const errors = applied.problems
        .flatMap(({ problems }) => problems)
        .filter(({ severity }) => severity === 'error').length
      this.#log.error({ cause, revision, errors }, 'reload failed, the previous configuration stays active')
      return
    }
    if (fresh) await this.#again(app)
    if (cause === FOLLOWED && !applied.changed) return
    tellWarnings(applied.warnings, this.#log)
    this.#log.info(
      { cause, revision, changed: applied.changed, ...applied.sites },
      applied.changed ? 'reloaded' : 'reloaded, nothing has changed'
    )
  }

  /** A file may have changed between its first reading and its watch. */
  async #again(app: Running): Promise<void> {
    const options = await this.#readOptions()
    if (options === undefined) return
    const applied = await app.reload(options)
    if (!applied.ok) this.#log.error({ cause: FOLLOWED, revision: applied.revision }, 'reload failed, nothing changed')
  }

  /** Watches exactly the files that the site file names, beside those of the options. True when there are new ones. */
  async #follow(named: readonly string[]): Promise<boolean> {
    const wanted = new Set([...this.#lasting, ...named])
    for (const [path, watch] of this.#watches) {
      if (wanted.has(path)) continue
      this.#watches.delete(path)
      // Its last call may be this reload, which must not wait for itself.
      void watch.close()
    }
    const fresh = [...wanted].filter((path) => !this.#watches.has(path))
    for (const path of fresh) this.#watches.set(path, await this.#watch(path))
    return fresh.length > 0
  }

  /** Logs the changed options that take effect at the next start. Returns undefined if the options cannot be read. */
  async #readOptions(): Promise<Options | undefined> {
    const loaded = await loadOptions(this.#input)
    if (!loaded.ok) {
      for (const problem of loaded.problems) this.#log.error(formatOptionProblem(problem))
      return undefined
    }
    for (const { path, steps } of optionEntries()) {
      if (RELOADED.some((one) => path === one || path.startsWith(`${one}.`))) continue
      if (isDeepStrictEqual(valueAt(loaded.options, steps), valueAt(this.#options, steps))) continue
      this.#log.warn({ option: path }, 'this option cannot be reloaded; the change takes effect at the next start')
    }
    return loaded.options
  }
}

/** The files that options name, with that of the options themselves. */
function namedBy(options: Options, file: string | undefined): ReadonlySet<string> {
  const { policy, policy_tests, upstream_ca, site_file } = options
  return new Set([file, policy, policy_tests, upstream_ca, site_file].filter((path) => path !== undefined))
}

function valueAt(options: Options, steps: readonly string[]): unknown {
  return steps.reduce<unknown>((level, step) => (level as Record<string, unknown> | undefined)?.[step], options)
}
