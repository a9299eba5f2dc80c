import type { Exchange } from '../flow/exchange.js'
import type { HeaderList } from '../flow/headers.js'
import type { ForwardOptions } from '../transport/contract.js'
import type { Server } from './server.js'

/**
 * Returns the options of an attempt at `server`: timeouts of its backend, its path prefix (except for `OPTIONS *`), and the requested
 * protocol if the backend allows it.
 */
export function serverOptions(
  options: ForwardOptions,
  { settings, dialer }: Server,
  exchange: Exchange
): ForwardOptions {
  const { timeouts, pathPrefix, upgrades } = settings
  const protocol =
    upgrades === undefined || exchange.upgrade !== 'other' || dialer.http2 === true
      ? undefined
      : protocolAmong(exchange.request.headers, upgrades)
  if (timeouts === undefined && pathPrefix === undefined && protocol === undefined) return options
  const {
    connect = options.connectTimeout,
    response = options.responseTimeout,
    idle = options.idleTimeout
  } = timeouts ?? {}
  const { head } = options
  const target = pathPrefix === undefined || head.target === '*' ? head.target : pathPrefix + head.target
  const headers = protocol === undefined ? head.headers : [...head.headers, 'Upgrade', protocol]
  return {
    ...options,
    head: { ...head, target, headers },
    upgrade: protocol !== undefined,
    connectTimeout: connect,
    responseTimeout: response,
    idleTimeout: idle
  }
}

/** Returns the first protocol of `Upgrade`, as written, that is in the lower-case list. */
function protocolAmong(headers: HeaderList, upgrades: readonly string[]): string | undefined {
  for (let i = 0; i < headers.length; i += 2) {
    if ((headers[i] as string).toLowerCase() !== 'upgrade') continue
    const asked = (headers[i + 1] as string).split(',').map((one) => one.trim())
    const found = asked.find((one) => upgrades.includes(one.toLowerCase()))
    if (found !== undefined) return found
  }
  return undefined
}
