import { join } from 'node:path'
import type { Logger } from 'pino'
import { type Running, type Started, start } from '../app/app.js'
import { processHooks, serverCapabilities } from '../capabilities/registry.js'
import { systemClock } from '../lib/clock.js'
import { atMost } from '../lib/concurrency.js'
import { codeOf } from '../lib/errors.js'
import { packageRoot } from '../lib/files.js'
import { formatOptionProblem, formatOrigin } from '../options/catalogue.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import type { Options } from '../options/options.js'
import { IN_MEMORY } from '../options/values.js'
import { type DemoUpstream, startDemoUpstream, withDemoAgents } from './demo.js'
import { announce } from './greeting.js'
import { writeLocalKey } from './local-key.js'
import { createLog, type ProcessLog } from './log.js'
import { ExitCode, giveHeapRoom, StopSignals, UncaughtErrors } from './process.js'
import type { ProcessHooks, SuccessorProcess } from './process-hooks.js'
import { Reloading } from './reloading.js'
import { explainStart } from './report.js'
import { inheritedSockets, ServiceManager } from './service-manager.js'

export interface ServeInput extends Pick<LoadInput, 'flags' | 'config'> {
  /** Bring an upstream and a site when no upstream, options file or site file is named. */
  readonly demo: boolean
  readonly newSealKey: boolean
  readonly newStore: boolean
  /** Take over from the process that runs on the same folder. */
  readonly takeOver: boolean
}

/** Settings of one start, which are no options because later starts must not use them. */
type Once = Pick<ServeInput, 'newSealKey' | 'newStore' | 'takeOver'>

/** Printed facts about a demo. */
interface DemoRun {
  readonly demo: boolean
  readonly agentsTaken: boolean
}

/** Runs the proxy until a signal ends it; resolves with the exit code. An error that a user can cause is logged without a stack. */
export async function serve(input: ServeInput): Promise<number> {
  giveHeapRoom()
  // A closed reader or a full disk must not end a process that carries traffic.
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
  const hooks = await processHooks()
  const successor = hooks.successor?.(process.env)
  const loaded = await loadOptions(input)
  if (!loaded.ok) {
    for (const problem of loaded.problems) {
      if (successor === undefined) console.error(formatOptionProblem(problem))
      else successor.explains(formatOptionProblem(problem))
    }
    return ExitCode.usage
  }
  const { data } = loaded.options
  if (once.takeOver) {
    if (data === IN_MEMORY) {
      console.error('error: --take-over needs a data folder; with :memory: there is nothing to hand over')
      return ExitCode.usage
    }
    const code = await hooks.takeOver?.(data, signals)
    if (code !== undefined) return code
    console.error(`take-over: no process runs on ${data}; starting normally`)
  }
  const log = createLog({ level: loaded.options.log.level, bytes: loaded.options.log.buffer }, process.stdout)
  const uncaught = new UncaughtErrors(log.logger)
  try {
    return await run(input, loaded, log, { signals, uncaught, demo, once, hooks, successor })
  } finally {
    await log.close()
    uncaught.release()
  }
}

/** Maximum time for a failed process to stop beside its drain (ms). */
const FAILED_STOP = 5_000

interface RunParts {
  readonly signals: StopSignals
  readonly uncaught: UncaughtErrors
  readonly demo: DemoRun
  readonly once: Once
  readonly hooks: ProcessHooks
  /** This process as the successor of another one; undefined if it takes the place of none. */
  readonly successor: SuccessorProcess | undefined
}

async function run(input: LoadInput, loaded: LoadedOptions, processLog: ProcessLog, parts: RunParts): Promise<number> {
  const { options, warnings } = loaded
  const { signals, uncaught, demo, hooks, successor } = parts
  const log = processLog.logger
  for (const warning of warnings)
    log.warn({ source: formatOrigin(warning.origin), option: warning.option }, warning.message)
  // Reloading watches the files before their first read, so that no change is missed.
  const manager = new ServiceManager(process.env, log)
  const wrong =
    successor === undefined
      ? []
      : await successor.problems(options, process.env, (await import('./check-files.js')).checkFile)
  if (wrong.length > 0) return failed(wrong, successor)
  const reloading = await Reloading.prepare(input, loaded, log, manager)
  let running: Running | NodeJS.Signals | Error
  try {
    running = await startUp(options, processLog, parts)
  } catch (error) {
    await reloading.close()
    const explained = explainStart(error, options)
    if (explained === undefined) throw error
    return failed(explained, successor)
  }
  if (typeof running === 'string' || running instanceof Error) {
    await reloading.close()
    if (running instanceof Error) return failed([], successor)
    log.info({ signal: running }, 'stopped before it was ready')
    return ExitCode.ok
  }
  const { started } = running
  const keyFile = await writeKeyFile(started, options, log)
  announce(started, loaded, { log, ...demo, ...(keyFile === undefined ? {} : { keyFile }) })
  await keepShownKey(started, log)
  reloading.begin(running)
  await successor?.serves(running.takeConnection)
  await manager.ready()
  manager.watch()
  const again = async () => {
    const next = await Reloading.prepare(input, loaded, log, manager)
    next.missed()
    next.begin(running)
    return next
  }
  const code = await untilEnd(running, { options, log, manager, signals, uncaught, hooks, reloading, again })
  successor?.ends(code)
  return code
}

/** Prints why the process cannot start, or sends it to the predecessor; returns the exit code. */
function failed(lines: readonly string[], successor: SuccessorProcess | undefined): number {
  for (const line of lines) {
    if (successor === undefined) console.error(line)
    else successor.explains(line)
  }
  successor?.ends(ExitCode.failure)
  return ExitCode.failure
}

/** Starts everything. A signal or an uncaught error that comes first is the result, and everything is stopped again. */
async function startUp(
  options: Options,
  processLog: ProcessLog,
  { signals, uncaught, once, hooks, successor }: RunParts
): Promise<Running | NodeJS.Signals | Error> {
  const given = {
    log: processLog.logger,
    apiKey: process.env.SLUICE_API_KEY || undefined,
    sealKey: process.env.SLUICE_SEAL_KEY || undefined,
    environment: process.env,
    newSealKey: once.newSealKey,
    newStore: once.newStore
  }
  const capabilities = await serverCapabilities()
  const handed = await successor?.takesPlace(options, { ...given, clock: systemClock }, capabilities)
  const threads = await hooks.threads?.(options, processLog)
  const ending = new AbortController()
  const sockets = successor?.sockets ?? inheritedSockets(process.env, process.pid, options)
  // A service manager that hands over the socket asks for it.
  const isAsked = successor === undefined && options.listen.off !== true && sockets.has(options.listen)
  const host = {
    ...given,
    output: processLog.output,
    clock: systemClock,
    sockets,
    ...handed,
    ...(threads === undefined ? {} : { threads }),
    signal: ending.signal
  }
  const asked = isAsked ? { ...options, listen: { host: options.listen.host, port: options.listen.port } } : options
  const starting = start(asked, host, capabilities)
  const first = await Promise.race([starting, signals.next(), uncaught.next()])
  if (typeof first !== 'string' && !(first instanceof Error)) return first
  ending.abort()
  // It may have become ready, or have failed, at the last moment.
  await starting.then(
    (late) => late.stop(),
    () => undefined
  )
  return first
}

interface Serving {
  readonly options: Options
  readonly log: Logger
  readonly manager: ServiceManager
  readonly signals: StopSignals
  readonly uncaught: UncaughtErrors
  readonly hooks: ProcessHooks
  readonly reloading: Reloading
  /** Applies files again after `reloading` has been closed. */
  readonly again: () => Promise<Reloading>
}

/** Serves until a signal comes or another process has taken the place of this one; resolves with the exit code. */
async function untilEnd(running: Running, serving: Serving): Promise<number> {
  const { options, log, manager, signals, uncaught, hooks, again } = serving
  let { reloading } = serving
  const predecessor =
    options.data === IN_MEMORY
      ? undefined
      : await hooks.replaceable?.({
          folder: options.data,
          log,
          running,
          releasing: () => reloading.close(),
          tookBack: async () => {
            reloading = await again()
          },
          environment: process.env
        })
  const ends = [signals.next(), uncaught.next(), ...(predecessor === undefined ? [] : [predecessor.next()])]
  const end = await Promise.race(ends)
  if (typeof end === 'number') {
    await manager.succeeded(end)
    log.info({ pid: end }, 'another process has taken over: draining open connections')
  } else {
    await manager.stopping()
    const about = typeof end === 'string' ? { signal: end } : { reason: end.message }
    log.info(about, 'stopping: draining open connections')
    await reloading.close()
  }
  predecessor?.close()
  if (end instanceof Error) return await stopFailed(running, options, log)
  const { ended, cut } = await running.stop()
  log.info({ ended, cut }, 'stopped')
  return ExitCode.ok
}

/** Stops a process in an inconsistent state, with a time limit. */
async function stopFailed(running: Running, { timeouts }: Options, log: Logger): Promise<number> {
  try {
    const stopped = await atMost(timeouts.drain + FAILED_STOP, running.stop())
    if (stopped !== undefined) log.info({ ended: stopped.ended, cut: stopped.cut }, 'stopped')
    else log.error('not everything could be stopped in time')
  } catch (error) {
    log.error({ err: error }, 'not everything could be stopped')
  }
  return ExitCode.failure
}

/** Writes the key that was made to its file; resolves with the path, or undefined if there is no such key or no file can have it. */
async function writeKeyFile({ unusedKey }: Started, { data }: Options, log: Logger): Promise<string | undefined> {
  if (unusedKey === undefined || data === IN_MEMORY) return undefined
  try {
    return await writeLocalKey(data, unusedKey.text)
  } catch (error) {
    log.error({ code: codeOf(error) }, 'the file of the API key cannot be written')
    return undefined
  }
}

/** A key that cannot be kept opens the API as long as the process runs; the next start makes another. */
async function keepShownKey({ unusedKey }: Started, log: ProcessLog['logger']): Promise<void> {
  try {
    await unusedKey?.shown()
  } catch (error) {
    log.error(
      { code: codeOf(error) },
      'the API key cannot be stored and is valid only for this process; the next start prints another one'
    )
  }
}
