import { relative } from 'node:path'
import type { Logger } from 'pino'
import type { Started } from '../app.js'
import type { LoadedOptions } from '../config/load.js'
import { formatAuthority, reachableUrl } from '../lib/host.js'
import { printProblems } from './unit-report.js'

/**
 * Says that the process is ready: a few lines on a terminal, one log line elsewhere. A key that was made is printed
 * here and nowhere else; it never reaches the log.
 */
export function announce(
  started: Started,
  { options }: LoadedOptions,
  { log, demo }: { log: Logger; demo: boolean }
): void {
  printProblems(started.warnings, process.stderr)
  const { traffic, api, revision, createdKey } = started
  const { policy, upstream } = options
  if (process.stdout.isTTY) {
    process.stdout.write(`${greeting(started, options, demo).join('\n')}\n`)
    return
  }
  const target =
    upstream === undefined ? undefined : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  log.info({ traffic: reachableUrl(traffic), api: reachableUrl(api), upstream: target, policy, revision }, 'listening')
  if (createdKey !== undefined) process.stderr.write(`API key, shown only now: ${createdKey}\n`)
}

function greeting(
  { traffic, api, createdKey }: Started,
  { upstream, policy }: LoadedOptions['options'],
  demo: boolean
): string[] {
  const url = reachableUrl(traffic)
  const target =
    upstream === undefined
      ? 'no upstream: every host gets 404'
      : `${upstream.protocol}://${formatAuthority(upstream.host, upstream.port)}`
  const lines = ['', 'Sluice is running.', `  traffic  ${url}  ->  ${target}${demo ? ' (a demo upstream)' : ''}`]
  if (policy !== undefined)
    lines.push(`  policy   ${relative(process.cwd(), policy)}  (applied again when you save it)`)
  lines.push(`  API      ${reachableUrl(api)}  (health: curl ${reachableUrl(api)}/healthz)`)
  if (createdKey !== undefined) lines.push(`  API key  ${createdKey}  (shown only now)`)
  lines.push('', demo ? `Try it: for i in 1 2 3 4 5 6; do curl -i ${url}/; done` : `Try it: curl -i ${url}/`)
  if (demo) lines.push('The sixth request within a minute is refused with 429, as the policy says.')
  lines.push('Ctrl-C stops it.', '')
  return lines
}
