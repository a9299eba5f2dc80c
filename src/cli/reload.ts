import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import type { Running } from '../app/app.js'
import { Mutex } from '../lib/concurrency.js'
import { CodedError } from '../lib/errors.js'
import { ContentWatch } from '../lib/files.js'
import { formatOptionProblem, optionEntries } from '../options/catalogue.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { printProblems } from './report.js'

/** Applies the files again when one of them changes and on SIGHUP; one reload ends before the next begins. */
export class Reloading {
  readonly #input: LoadInput
  readonly #options: Options
  readonly #log: Logger
  readonly #hangup = () => void this.#request('SIGHUP')
  #watches: ContentWatch[] = []
  #app: Running | undefined
  #early: string | undefined
  readonly #mutex = new Mutex()

  private constructor(input: LoadInput, options: Options, log: Logger) {
    this.#input = input
    this.#options = options
    this.#log = log
  }

  /** Watches the files from now on; changes wait for `begin`. */
  static async prepare(input: LoadInput, { options, file }: LoadedOptions, log: Logger): Promise<Reloading> {
    const reloading = new Reloading(input, options, log)
    const files = [file, options.policy, options.upstream_ca].filter((path) => path !== undefined)
    reloading.#watches = await Promise.all(files.map((path) => reloading.#watch(path)))
    process.on('SIGHUP', reloading.#hangup)
    return reloading
  }

  begin(app: Running): void {
    this.#app = app
    if (this.#early !== undefined) void this.#request(this.#early)
  }

  async close(): Promise<void> {
    process.off('SIGHUP', this.#hangup)
    await Promise.all(this.#watches.map((watch) => watch.close()))
    // A reload that is under way ends first.
    await this.#mutex.run(async () => undefined)
  }

  #watch(path: string): Promise<ContentWatch> {
    const failed = (error: unknown) => this.#log.error({ err: error, file: path }, 'watching a file failed')
    const lost = (code: string) =>
      this.#log.error(
        { file: path, code },
        'a file of the configuration cannot be read any more; what it said stays in force'
      )
    return ContentWatch.start(path, () => this.#request(path), failed, { lost })
  }

  async #request(cause: string): Promise<void> {
    if (this.#app === undefined) {
      this.#early = cause
      return
    }
    const app = this.#app
    await this.#mutex
      .run(() => this.#reload(app, cause))
      .catch((error: unknown) => {
        this.#log.error({ err: error, cause }, 'reload failed; nothing changed')
      })
  }

  async #reload(app: Running, cause: string): Promise<void> {
    const options = await this.#readOptions()
    if (options === undefined) {
      this.#log.error({ cause }, 'reload refused, the configuration before it stays in force')
      return
    }
    let applied: Awaited<ReturnType<Running['reload']>>
    try {
      applied = await app.reload(options.listeners)
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      this.#log.error({ cause, code: error.code }, `reload refused, nothing changed: ${error.message}`)
      return
    }
    const { revision } = applied
    if (!applied.ok) {
      for (const { host, port, reason } of applied.ports) {
        this.#log.error({ cause, host, port, reason }, 'a listener cannot be opened')
      }
      printProblems(applied.problems, process.stderr)
      const errors = applied.problems
        .flatMap(({ problems }) => problems)
        .filter(({ severity }) => severity === 'error').length
      this.#log.error({ cause, revision, errors }, 'reload refused, the configuration before it stays in force')
      return
    }
    printProblems(applied.warnings, process.stderr)
    this.#log.info(
      { cause, revision, changed: applied.changed },
      applied.changed ? 'reloaded' : 'reloaded, nothing has changed'
    )
  }

  /** But for the listeners, options are read at the start only: says so when they are others now. Undefined: they cannot be read. */
  async #readOptions(): Promise<Options | undefined> {
    const loaded = await loadOptions(this.#input)
    if (!loaded.ok) {
      for (const problem of loaded.problems) this.#log.error(formatOptionProblem(problem))
      return undefined
    }
    for (const { path, steps } of optionEntries()) {
      if (path === 'listeners') continue
      if (!isDeepStrictEqual(valueAt(loaded.options, steps), valueAt(this.#options, steps))) {
        this.#log.warn({ option: path }, 'the option has changed; it takes effect at the next start')
      }
    }
    return loaded.options
  }
}

function valueAt(options: Options, steps: readonly string[]): unknown {
  return steps.reduce<unknown>((level, step) => (level as Record<string, unknown> | undefined)?.[step], options)
}
