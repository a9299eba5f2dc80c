import { join } from 'node:path'
import { App, type Started } from '../app/app.js'
import { systemClock } from '../lib/clock.js'
import { codeOf } from '../lib/coded-error.js'
import { packageRoot } from '../lib/files.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import { formatOptionProblem, formatOrigin } from '../options/problem.js'
import { announce } from './announce.js'
import { withDemoAgents } from './demo-agents.js'
import { type DemoUpstream, startDemoUpstream } from './demo-upstream.js'
import { ExitCode } from './exit-code.js'
import { giveHeapRoom } from './heap-growth.js'
import { createLog, type ProcessLog } from './process-log.js'
import { Reloading } from './reloading.js'
import { StopSignals } from './signals.js'
import { explainStart } from './start-errors.js'

export interface ServeInput extends Pick<LoadInput, 'flags' | 'config'> {
  /** Bring an upstream and a policy when nobody names an upstream or an options file. */
  readonly demo: boolean
  readonly newSealKey: boolean
  readonly newStore: boolean
}

/** What one start is told that the options must not say to every start. */
type Once = Pick<ServeInput, 'newSealKey' | 'newStore'>

/** What is told of a demo. */
interface DemoRun {
  readonly demo: boolean
  readonly agentsTaken: boolean
}

/** Runs the proxy until a signal ends it; resolves with the exit code. What a user can cause is told without a stack. */
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
  const upstream = flags.find(({ option }) => option === 'upstream')?.text ?? process.env.SLUICE_UPSTREAM ?? ''
  return demo && named === '' && upstream === ''
}

function loadInput({ flags, config }: ServeInput, demo: DemoUpstream | undefined): LoadInput {
  const input = { environment: process.env, folder: process.cwd() }
  if (demo === undefined) return { ...input, flags, ...(config === undefined ? {} : { config }) }
  return {
    ...input,
    flags: [...flags, { flag: '--demo', option: 'upstream', text: demo.url }],
    config: join(packageRoot(), 'config', 'sluice.yaml')
  }
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
  let app: App
  let started: Started | NodeJS.Signals
  try {
    app = new App(options, {
      log,
      output: processLog.output,
      clock: systemClock,
      apiKey: process.env.SLUICE_API_KEY || undefined,
      sealKey: process.env.SLUICE_SEAL_KEY || undefined,
      newSealKey: once.newSealKey,
      newStore: once.newStore
    })
    started = await Promise.race([app.start(), signals.next()])
  } catch (error) {
    await reloading.close()
    const explained = explainStart(error, options)
    if (explained === undefined) throw error
    for (const line of explained) console.error(line)
    return ExitCode.failure
  }
  if (typeof started === 'string') {
    await reloading.close()
    await app.stop()
    log.info({ signal: started }, 'stopped before it was ready')
    return ExitCode.ok
  }
  announce(started, loaded, { log, ...demo })
  await keepShownKey(started, log)
  reloading.begin(app)
  const signal = await signals.next()
  log.info({ signal }, 'stopping: no new connections, waiting for what is under way')
  await reloading.close()
  const { ended, cut } = await app.stop()
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
