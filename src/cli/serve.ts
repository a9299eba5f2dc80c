import { join, relative } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Logger } from 'pino'
import { type Running, type Started, start } from '../app/app.js'
import { RELOADED } from '../app/live-options.js'
import { systemClock } from '../lib/clock.js'
import { Mutex } from '../lib/concurrency.js'
import { CodedError, codeOf } from '../lib/errors.js'
import { ContentWatch, packageRoot } from '../lib/files.js'
import { formatAuthority, reachableAuthority, reachableUrl } from '../lib/host.js'
import { formatOptionProblem, formatOrigin, optionEntries } from '../options/catalogue.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import type { UnitProblems } from '../policy/problems.js'
import { loggedWarning } from '../policy/warnings/codes.js'
import { DEMO_AGENTS, type DemoUpstream, startDemoUpstream, withDemoAgents } from './demo.js'
import { createLog, type ProcessLog } from './log.js'
import { ExitCode, giveHeapRoom, StopSignals } from './process.js'
import { explainStart, forKeeping, printProblems } from './report.js'

/** Why files are read again that are watched now and were not when they were read. */
const FOLLOWED = 'files that the site file names'

/** Applies the files again when one of them changes and on SIGHUP; one reload ends before the next begins. */
class Reloading {
  readonly #input: LoadInput
  readonly #options: Options
  /** Path of the options file. */
  readonly #file: string | undefined
  readonly #log: Logger
  readonly #hangup = () => void this.#request('SIGHUP')
  /** By path: the files that options name, and those that the site file names. */
  readonly #watches = new Map<string, ContentWatch>()
  #lasting: ReadonlySet<string> = new Set()
  #app: Running | undefined
  #early: string | undefined
  readonly #mutex = new Mutex()

  private constructor(input: LoadInput, { options, file }: LoadedOptions, log: Logger) {
    this.#input = input
    this.#options = options
    this.#file = file
    this.#log = log
  }

  /** Watches the files from now on; changes wait for `begin`. */
  static async prepare(input: LoadInput, loaded: LoadedOptions, log: Logger): Promise<Reloading> {
    const reloading = new Reloading(input, loaded, log)
    reloading.#lasting = namedBy(loaded.options, loaded.file)
    for (const path of reloading.#lasting) reloading.#watches.set(path, await reloading.#watch(path))
    process.on('SIGHUP', reloading.#hangup)
    return reloading
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
      applied = await app.reload(options)
    } catch (error) {
      if (!(error instanceof CodedError)) throw error
      this.#log.error({ cause, code: error.code }, `reload refused, nothing changed: ${error.message}`)
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
      this.#log.error({ cause, revision, errors }, 'reload refused, the configuration before it stays in force')
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
    if (!applied.ok) this.#log.error({ cause: FOLLOWED, revision: applied.revision }, 'reload refused, nothing changed')
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

  /** Says which options are others now and take effect at the next start. Undefined: they cannot be read. */
  async #readOptions(): Promise<Options | undefined> {
    const loaded = await loadOptions(this.#input)
    if (!loaded.ok) {
      for (const problem of loaded.problems) this.#log.error(formatOptionProblem(problem))
      return undefined
    }
    for (const { path, steps } of optionEntries()) {
      if (RELOADED.some((one) => path === one || path.startsWith(`${one}.`))) continue
      if (isDeepStrictEqual(valueAt(loaded.options, steps), valueAt(this.#options, steps))) continue
      this.#log.warn(
        { option: path },
        'the option has changed; it binds the process and takes effect at the next start'
      )
    }
    return loaded.options
  }
}

/**
 * A person at a terminal gets warnings as `sluice check` shows them, with the text of the document. What is kept, the log and a
 * standard error that leads elsewhere, gets code and place: a literal of the document may be a secret.
 */
function tellWarnings(units: readonly UnitProblems[], log: Logger): void {
  if (process.stderr.isTTY) printProblems(units, process.stderr)
  // Beside each other on one terminal they would say everything twice.
  if (process.stderr.isTTY && process.stdout.isTTY) return
  for (const { source, problems } of units) {
    for (const problem of problems) {
      const { severity, code, path, line, column } = problem
      if (severity === 'warning') log.warn({ source, code, path, line, column }, loggedWarning(problem))
    }
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

/**
 * Says that the process is ready: a few lines on a terminal, one log line elsewhere. A key that waits for its first use is
 * printed here and nowhere else; it never reaches the log. `agentsTaken`: the demo would have opened a port for agents, which is
 * another process's.
 */
function announce(
  started: Started,
  { options }: LoadedOptions,
  { log, demo, agentsTaken = false }: { log: Logger; demo: boolean; agentsTaken?: boolean }
): void {
  tellWarnings(started.warnings, log)
  const { traffic, api, agents, revision, unusedKey } = started
  const { policy, upstream, site_file } = options
  if (process.stdout.isTTY) {
    process.stdout.write(`${greeting(started, options, { demo, agentsTaken }).join('\n')}\n`)
    return
  }
  const target =
    upstream === undefined ? undefined : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  const where = agents && { agents: reachableAuthority(agents), agents_ca: agents.caFile }
  const about = {
    traffic: reachableUrl(traffic),
    api: reachableUrl(api),
    ...where,
    upstream: target,
    policy,
    site_file,
    revision
  }
  log.info(about, 'listening')
  if (agentsTaken) log.warn({ port: DEMO_AGENTS.port }, 'no agents: their port of the demo is in use')
  if (unusedKey !== undefined)
    process.stderr.write(`API key, shown at each start until it is used: ${unusedKey.text}\n`)
}

function greeting(
  { traffic, api, agents, unusedKey }: Started,
  { upstream, policy, site_file: site }: LoadedOptions['options'],
  { demo, agentsTaken }: { demo: boolean; agentsTaken: boolean }
): string[] {
  const url = reachableUrl(traffic)
  const others = site === undefined ? 'no upstream: every host gets 404' : `the sites of ${shown(site)}`
  const target =
    upstream === undefined ? others : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  const lines = ['', 'Sluice is running.', `  traffic  ${url}  ->  ${target}${demo ? ' (a demo upstream)' : ''}`]
  if (policy !== undefined) lines.push(`  policy   ${shown(policy)}  (applied again when you save it)`)
  if (site !== undefined) lines.push(`  sites    ${shown(site)}  (applied again when you save it)`)
  lines.push(`  API      ${reachableUrl(api)}  (health: curl ${reachableUrl(api)}/healthz)`)
  if (agents !== undefined) {
    const ca = agents.caFile
    const trust = ca === undefined ? '' : `  (they trust ${shown(ca)}: sluice agent --ca ${shown(ca)} …)`
    lines.push(`  agents   ${reachableAuthority(agents)}${trust}`)
  }
  if (agentsTaken) lines.push(`  agents   nowhere: port ${DEMO_AGENTS.port} is in use by another process`)
  if (unusedKey !== undefined) lines.push(`  API key  ${unusedKey.text}  (shown at each start until it is used)`)
  lines.push('', demo ? `Try it: for i in 1 2 3 4 5 6; do curl -i ${url}/; done` : `Try it: curl -i ${url}/`)
  if (demo) lines.push('The sixth request within a minute is refused with 429, as the policy says.')
  lines.push('Ctrl-C stops it.', '')
  return lines
}

function shown(path: string): string {
  return relative(process.cwd(), path)
}

export interface ServeInput extends Pick<LoadInput, 'flags' | 'config'> {
  /** Bring an upstream and a site when no upstream, options file or site file is named. */
  readonly demo: boolean
  readonly newSealKey: boolean
  readonly newStore: boolean
}

/** What belongs to one start and must not stand in the options, which every start reads. */
type Once = Pick<ServeInput, 'newSealKey' | 'newStore'>

/** What is printed about a demo. */
interface DemoRun {
  readonly demo: boolean
  readonly agentsTaken: boolean
}

/** Runs the proxy until a signal ends it; resolves with the exit code. An error that a user can cause is logged without a stack. */
export async function serve(input: ServeInput): Promise<number> {
  giveHeapRoom()
  // Nothing reads it, or its disk is full: that must not end a process that carries traffic.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined)
  const signals = new StopSignals(systemClock)
  const demo = isDemo(input) ? await startDemoUpstream() : undefined
  try {
    const loaded = loadInput(input, demo)
    const { input: options, agentsTaken } =
      demo === undefined ? { input: loaded, agentsTaken: false } : await withDemoAgents(loaded)
    return await serveWith(options, { demo: demo !== undefined, agentsTaken }, signals, input)
  } finally {
    await demo?.close()
  }
}

function isDemo({ demo, flags, config }: ServeInput): boolean {
  const named = config ?? process.env.SLUICE_CONFIG ?? ''
  const given = (option: string) => flags.find((flag) => flag.option === option)?.text
  const upstream = given('upstream') ?? process.env.SLUICE_UPSTREAM ?? ''
  const site = given('site_file') ?? process.env.SLUICE_SITE_FILE ?? ''
  return demo && named === '' && upstream === '' && site === ''
}

function loadInput({ flags, config }: ServeInput, demo: DemoUpstream | undefined): LoadInput {
  const input = { environment: process.env, folder: process.cwd() }
  if (demo === undefined) return { ...input, flags, ...(config === undefined ? {} : { config }) }
  const folder = join(packageRoot(), 'config')
  const policy = flags.find(({ option }) => option === 'policy')?.text ?? process.env.SLUICE_POLICY ?? ''
  // A policy of one's own runs for the upstream of the options.
  if (demo.usual && policy === '')
    return { ...input, flags: [...flags, { flag: '--demo', option: 'site_file', text: join(folder, 'demo.yaml') }] }
  const upstream = { flag: '--demo', option: 'upstream', text: demo.url }
  return { ...input, flags: [...flags, upstream], config: join(folder, 'sluice.yaml') }
}

async function serveWith(input: LoadInput, demo: DemoRun, signals: StopSignals, once: Once): Promise<number> {
  const loaded = await loadOptions(input)
  if (!loaded.ok) {
    for (const problem of loaded.problems) console.error(formatOptionProblem(problem))
    return ExitCode.usage
  }
  const log = createLog({ level: loaded.options.log.level, bytes: loaded.options.log.buffer }, process.stdout)
  try {
    return await run(input, loaded, log, { signals, demo, once })
  } finally {
    await log.close()
  }
}

async function run(
  input: LoadInput,
  loaded: LoadedOptions,
  processLog: ProcessLog,
  { signals, demo, once }: { readonly signals: StopSignals; readonly demo: DemoRun; readonly once: Once }
): Promise<number> {
  const { options, warnings } = loaded
  const log = processLog.logger
  for (const warning of warnings)
    log.warn({ source: formatOrigin(warning.origin), option: warning.option }, warning.message)
  // Reloading looks at the files before the first read of them, so that no change falls between.
  const reloading = await Reloading.prepare(input, loaded, log)
  const ending = new AbortController()
  let starting: Promise<Running>
  let running: Running | NodeJS.Signals
  try {
    starting = start(options, {
      log,
      output: processLog.output,
      clock: systemClock,
      apiKey: process.env.SLUICE_API_KEY || undefined,
      sealKey: process.env.SLUICE_SEAL_KEY || undefined,
      environment: process.env,
      newSealKey: once.newSealKey,
      newStore: once.newStore,
      signal: ending.signal
    })
    running = await Promise.race([starting, signals.next()])
  } catch (error) {
    await reloading.close()
    const explained = explainStart(error, options)
    if (explained === undefined) throw error
    for (const line of explained) console.error(line)
    return ExitCode.failure
  }
  if (typeof running === 'string') {
    await reloading.close()
    ending.abort()
    // It may have become ready, or have failed, at the last moment.
    await starting.then(
      (late) => late.stop(),
      () => undefined
    )
    log.info({ signal: running }, 'stopped before it was ready')
    return ExitCode.ok
  }
  const { started } = running
  announce(started, loaded, { log, ...demo })
  await keepShownKey(started, log)
  reloading.begin(running)
  const signal = await signals.next()
  log.info({ signal }, 'stopping: no new connections, waiting for what is under way')
  await reloading.close()
  const { ended, cut } = await running.stop()
  log.info({ ended, cut }, 'stopped')
  return ExitCode.ok
}

/** A key that cannot be kept opens the API as long as the process runs; the next start makes another. */
async function keepShownKey({ unusedKey }: Started, log: ProcessLog['logger']): Promise<void> {
  try {
    await unusedKey?.shown()
  } catch (error) {
    log.error(
      { code: codeOf(error) },
      'the API key cannot be stored, so it ends with this process; the next start shows another'
    )
  }
}
