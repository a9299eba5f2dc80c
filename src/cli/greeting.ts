import { relative } from 'node:path'
import type { Logger } from 'pino'
import type { Started } from '../app/app.js'
import { formatAuthority, reachableAuthority, reachableUrl } from '../lib/host.js'
import { shellWord } from '../lib/shell-word.js'
import type { LoadedOptions } from '../options/load.js'
import type { UnitProblems } from '../policy/problems.js'
import { loggedWarning } from '../policy/warnings/codes.js'
import { DEMO_AGENTS } from './demo.js'
import { printProblems } from './report.js'

/**
 * Prints warnings: on a terminal in the form of `sluice check`, with the text of the document. The log, and a redirected
 * standard error, get code and position only: a literal of the document may be a secret.
 */
export function tellWarnings(units: readonly UnitProblems[], log: Logger): void {
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

/** Facts for `announce` beside the options. */
export interface Announcement {
  readonly log: Logger
  readonly demo: boolean
  /** True if another process has the port of the demo's agents. */
  readonly agentsTaken?: boolean
  /** File of the key; undefined if it is in none. */
  readonly keyFile?: string | undefined
}

/**
 * Says that the process is ready: a few lines on a terminal, one log line elsewhere. A key that waits for its first use is printed on a terminal
 * alone; other outputs are kept, so they get the path of its file.
 */
export function announce(
  started: Started,
  { options }: LoadedOptions,
  { log, demo, agentsTaken = false, keyFile }: Announcement
): void {
  tellWarnings(started.warnings, log)
  const { traffic, api, agents, revision, unusedKey, listeners, threads } = started
  const { policy, upstream, site_file } = options
  if (process.stdout.isTTY) {
    process.stdout.write(`${greeting(started, options, { demo, agentsTaken, keyFile }).join('\n')}\n`)
    return
  }
  const about = {
    traffic: traffic.port === 0 ? undefined : reachableUrl(traffic),
    ...(listeners.length > 1 ? { listeners: listeners.map(reachableUrl) } : {}),
    ...(threads > 0 ? { threads } : {}),
    api: reachableUrl(api),
    ...(agents && { agents: reachableAuthority(agents), agents_ca: agents.caFile }),
    upstream: upstream && upstreamUrl(upstream),
    policy,
    site_file,
    revision
  }
  log.info(about, 'listening')
  if (agentsTaken) log.warn({ port: DEMO_AGENTS.port }, 'agents cannot connect: the demo port is in use')
  if (unusedKey === undefined) return
  process.stderr.write(
    keyFile === undefined
      ? 'no API key is shown here, and no file keeps one: set SLUICE_API_KEY, or start at a terminal\n'
      : `the API key is in ${keyFile}; commands on this machine find it by SLUICE_DATA\n`
  )
}

/** The lines of a terminal that follow a start. */
function greeting(
  started: Started,
  { upstream, policy, site_file: site, api: { dashboard } }: LoadedOptions['options'],
  { demo, agentsTaken = false, keyFile }: Omit<Announcement, 'log'>
): string[] {
  const { traffic, api, agents, unusedKey, listeners, threads } = started
  const others = site === undefined ? 'no upstream: every host gets 404' : `the sites of ${shown(site)}`
  const target = upstream === undefined ? others : upstreamUrl(upstream)
  const lines = ['', 'Sluice is running.']
  if (traffic.port === 0) lines.push('  traffic  nowhere: no listener is open')
  for (const listener of listeners)
    lines.push(`  traffic  ${reachableUrl(listener)}  ->  ${target}${demo ? ' (a demo upstream)' : ''}`)
  if (threads > 0)
    lines.push(`  threads  ${threads} worker ${threads === 1 ? 'thread carries' : 'threads carry'} traffic`)
  if (policy !== undefined) lines.push(`  policy   ${shown(policy)}  (reloaded when you save it)`)
  if (site !== undefined) lines.push(`  sites    ${shown(site)}  (reloaded when you save it)`)
  const page = dashboard ? 'in a browser: the dashboard; ' : ''
  lines.push(`  API      ${reachableUrl(api)}  (${page}health: curl ${reachableUrl(api)}/healthz)`)
  if (agents !== undefined) {
    const ca = agents.caFile
    const trust = ca === undefined ? '' : `  (they trust ${shown(ca)}: sluice agent --ca ${shellWord(shown(ca))} …)`
    lines.push(`  agents   ${reachableAuthority(agents)}${trust}`)
  }
  if (agentsTaken) lines.push(`  agents   none: port ${DEMO_AGENTS.port} is in use by another process`)
  if (unusedKey !== undefined) {
    const file = keyFile === undefined ? '' : `, and in ${shown(keyFile)}`
    lines.push(`  API key  ${unusedKey.text}  (printed at each start until it is used${file})`)
  }
  lines.push('', `Try it: ${demo ? demoLoop(traffic) : curlOf(started, upstream !== undefined)}`)
  if (demo) lines.push('The policy rejects the sixth request within a minute with 429.')
  lines.push('Ctrl-C stops it.', '')
  return lines
}

function demoLoop(traffic: Started['traffic']): string {
  return `for i in 1 2 3 4 5 6; do curl -i ${reachableUrl(traffic)}/; done`
}

/** Returns a command that a site responds to: the first site, unless an upstream accepts every host. */
function curlOf({ traffic, site }: Started, hasUpstream: boolean): string {
  if (site === undefined || hasUpstream) return `curl ${traffic.tls === true ? '-ik' : '-i'} ${reachableUrl(traffic)}/`
  const { host, path, listener } = site
  const [address = ''] = splitAuthority(reachableAuthority(listener))
  const url = `${reachableUrl({ ...listener, host })}${path}`
  const isReachable = host === address || (host === 'localhost' && /^(?:127\.0\.0\.1|\[::1\])$/.test(address))
  const where = isReachable ? '' : `--resolve ${host}:${listener.port}:${address} `
  return `curl ${listener.tls ? '-ik' : '-i'} ${where}${shellWord(url)}`
}

function splitAuthority(authority: string): [host: string, port: string] {
  const at = authority.lastIndexOf(':')
  return [authority.slice(0, at), authority.slice(at + 1)]
}

function upstreamUrl({ protocol, host, port }: NonNullable<LoadedOptions['options']['upstream']>): string {
  return `${protocol}://${formatAuthority(host, port)}`
}

function shown(path: string): string {
  return relative(process.cwd(), path)
}
