import { askApi, keylessAccess, printApiError } from '../../cli/api-client.js'
import { ExitCode } from '../../cli/process.js'
import { printable } from '../../lib/printable.js'
import { STATES, type StatusView } from './answers.js'

export interface StatusFlags {
  readonly api: string
  readonly json?: boolean
}

const NOT_FOUND = 404
/** Time limit of a readiness check (ms). */
const READY_WITHIN = 2_000

/** Prints the state of each site, the worst first. Resolves with the exit code. */
export async function printStatus({ api, json }: StatusFlags): Promise<number> {
  const access = keylessAccess(api)
  if (typeof access === 'string') {
    process.stderr.write(`error: ${access}\n(sluice status --help lists the flags)\n`)
    return ExitCode.usage
  }
  const { status, body } = await askApi(access, '/status')
  if (status === NOT_FOUND) {
    process.stderr.write('error: the status page is off: start Sluice with status_page: on (SLUICE_STATUS_PAGE=on)\n')
    return ExitCode.failure
  }
  if (status !== 200) return printApiError(body)
  const view = body as StatusView
  for (const line of json === true ? [JSON.stringify(view)] : linesOf(view)) process.stdout.write(`${line}\n`)
  return view.status === 'up' ? ExitCode.ok : ExitCode.failure
}

/** Returns the URL at which this machine reaches a listener of the API, or `otherwise` without an address. A wildcard address is reached on loopback. */
export function listeningApi(listen: string | undefined, otherwise: string): string {
  const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(listen ?? '') ?? []
  if (port === '') return otherwise
  const here = host === '0.0.0.0' ? '127.0.0.1' : host === '[::]' ? '[::1]' : host
  return `http://${here}:${port}`
}

/** Prints whether the process accepts traffic, and why it is degraded. Resolves with the exit code. */
export async function printReadiness(api: string): Promise<number> {
  const access = keylessAccess(api)
  if (typeof access === 'string') {
    process.stderr.write(`error: ${access}\n(sluice status --help lists the flags)\n`)
    return ExitCode.usage
  }
  const { status, body } = await askApi(access, '/readyz', { deadline: READY_WITHIN })
  const reasons = Array.isArray(body.reasons) ? body.reasons.map(String) : []
  process.stdout.write(`${[printable(String(body.status)), ...reasons.map(printable)].join(' ')}\n`)
  return status === 200 ? ExitCode.ok : ExitCode.failure
}

function linesOf({ sites, omitted, checked_at }: StatusView): string[] {
  if (sites.length === 0) return ['no sites']
  const worst = [...sites].sort((a, b) => STATES.indexOf(b.status) - STATES.indexOf(a.status))
  const up = sites.filter(({ status }) => status === 'up').length
  return [
    ...worst.map(({ name, status }) => `${status.padEnd(8)} ${printable(name)}`),
    `${up} of ${sites.length} ${sites.length === 1 ? 'site is' : 'sites are'} up at ${checked_at}${omitted === 0 ? '' : `; ${omitted} more are not listed`}`
  ]
}
