import { join, relative } from 'node:path'
import type { Logger } from 'pino'
import { type Running, type Started, start } from '../app/app.js'
import { systemClock } from '../lib/clock.js'
import { codeOf } from '../lib/errors.js'
import { packageRoot } from '../lib/files.js'
import { formatAuthority, reachableAuthority, reachableUrl } from '../lib/host.js'
import { formatOptionProblem, formatOrigin } from '../options/catalogue.js'
import { type LoadedOptions, type LoadInput, loadOptions } from '../options/load.js'
import { DEMO_AGENTS, type DemoUpstream, startDemoUpstream, withDemoAgents } from './demo.js'
import { createLog, type ProcessLog } from './log.js'
import { ExitCode, giveHeapRoom, StopSignals } from './process.js'
import { Reloading } from './reload.js'
import { explainStart, printProblems } from './report.js'

/**
 * Says that the process is ready: a few lines on a terminal, one log line elsewhere. A key that waits for its first use is
 * printed here and nowhere else; it never reaches the log. `agentsTaken`: the demo would have opened a port for agents, which is
 * another process's.
 */
export function announce(
  started: Started,
  { options }: LoadedOptions,
  { log, demo, agentsTaken = false }: { log: Logger; demo: boolean; agentsTaken?: boolean }
): void {
  printProblems(started.warnings, process.stderr)
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
  /** Bring an upstream and a policy when neither an upstream nor an options file is named. */
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
