import { ConfigurationRefused } from '../app/app.js'
import { CodedError, codeOf } from '../lib/coded-error.js'
import { formatAuthority } from '../lib/host.js'
import type { ListenAddress } from '../options/fields.js'
import type { Options } from '../options/options.js'
import { styleFor } from './report.js'
import { formatProblems } from './unit-report.js'

/** What a system error says of itself. */
interface SystemError {
  readonly code: string
  readonly syscall?: string
  readonly port?: number
  readonly hostname?: string
  readonly path?: string
}

/** The lines that tell a user why the process does not start, or undefined when the fault is ours. */
export function explainStart(error: unknown, options: Options): string[] | undefined {
  if (error instanceof ConfigurationRefused)
    return formatProblems(error.problems, styleFor(process.stderr, process.env))
  if (error instanceof CodedError) {
    const cause = codeOf(error.cause)
    return [`${error.message}${cause === undefined ? '' : ` (${cause})`}`]
  }
  if (!isSystemError(error)) return undefined
  if (error.syscall === 'listen' || error.syscall === 'bind' || error.syscall === 'getaddrinfo')
    return [explainBind(error, options)]
  if (error.path !== undefined)
    return [`${error.path}: ${error.syscall ?? 'access'} failed (${error.code}); the option data names the folder`]
  return undefined
}

function isSystemError(error: unknown): error is SystemError {
  return error instanceof Error && codeOf(error) !== undefined && 'errno' in error
}

function explainBind(error: SystemError, { listen, listeners, api }: Options): string {
  const fits = (at: ListenAddress) =>
    error.syscall === 'getaddrinfo' ? error.hostname === at.host : error.port === at.port
  const further = listeners.map((one) => one.listen).find(fits)
  if (further !== undefined && !fits(listen)) {
    return `listeners: ${reason(error.code, further)}; choose another address with SLUICE_LISTENERS or listeners in the options file`
  }
  const isApi =
    error.syscall === 'getaddrinfo'
      ? error.hostname !== listen.host
      : error.port === api.listen.port && error.port !== listen.port
  const [option, flag, variable, at] = isApi
    ? ['api.listen', '--api', 'SLUICE_API_LISTEN', api.listen]
    : ['listen', '--listen', 'SLUICE_LISTEN', listen]
  return `${option}: ${reason(error.code, at as ListenAddress)}; choose another address with ${flag}, ${variable} or ${option} in the options file`
}

function reason(code: string, at: ListenAddress): string {
  const address = formatAuthority(at.host, at.port)
  switch (code) {
    case 'EADDRINUSE':
      return `${address} is in use by another process (${code})`
    case 'EACCES':
      return `this user may not listen on ${address} (${code})`
    case 'EADDRNOTAVAIL':
      return `${at.host} is no address of this machine (${code})`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${at.host} has no address (${code})`
    default:
      return `cannot listen on ${address} (${code})`
  }
}
