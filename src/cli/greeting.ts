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
 * A person at a terminal gets warnings as `sluice check` shows them, with the text of the document. What is kept, the log and a
 * standard error that leads elsewhere, gets code and place: a literal of the document may be a secret.
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
  tellWarnings(started.warnings, log)
  const { traffic, api, agents, revision, unusedKey } = started
  const { policy, upstream, site_file } = options
  if (process.stdout.isTTY) {
    process.stdout.write(`${greeting(started, options, { demo, agentsTaken }).join('\n')}\n`)
    return
  }
  const target =
    upstream === undefined ? undefined : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  const about = {
    traffic: reachableUrl(traffic),
    api: reachableUrl(api),
    ...(agents && { agents: reachableAuthority(agents), agents_ca: agents.caFile }),
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
  { upstream, policy, site_file: site, api: { dashboard } }: LoadedOptions['options'],
  { demo, agentsTaken }: { demo: boolean; agentsTaken: boolean }
): string[] {
  const url = reachableUrl(traffic)
  const others = site === undefined ? 'no upstream: every host gets 404' : `the sites of ${shown(site)}`
  const target =
    upstream === undefined ? others : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  const lines = ['', 'Sluice is running.', `  traffic  ${url}  ->  ${target}${demo ? ' (a demo upstream)' : ''}`]
  if (policy !== undefined) lines.push(`  policy   ${shown(policy)}  (applied again when you save it)`)
  if (site !== undefined) lines.push(`  sites    ${shown(site)}  (applied again when you save it)`)
  const page = dashboard ? 'in a browser: the dashboard; ' : ''
  lines.push(`  API      ${reachableUrl(api)}  (${page}health: curl ${reachableUrl(api)}/healthz)`)
  if (agents !== undefined) {
    const ca = agents.caFile
    const trust = ca === undefined ? '' : `  (they trust ${shown(ca)}: sluice agent --ca ${shellWord(shown(ca))} …)`
    lines.push(`  agents   ${reachableAuthority(agents)}${trust}`)
  }
  if (agentsTaken) lines.push(`  agents   nowhere: port ${DEMO_AGENTS.port} is in use by another process`)
  if (unusedKey !== undefined) lines.push(`  API key  ${unusedKey.text}  (shown at each start until it is used)`)
  lines.push(
    '',
    demo
      ? `Try it: for i in 1 2 3 4 5 6; do curl -i ${url}/; done`
      : `Try it: curl ${traffic.tls === true ? '-ik' : '-i'} ${url}/`
  )
  if (demo) lines.push('The sixth request within a minute is refused with 429, as the policy says.')
  lines.push('Ctrl-C stops it.', '')
  return lines
}

function shown(path: string): string {
  return relative(process.cwd(), path)
}
