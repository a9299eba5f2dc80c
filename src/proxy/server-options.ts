import type { ForwardOptions } from '../transport/contract.js'
import type { Server } from './server.js'

/** Returns the options of an attempt at `server`: with the time-outs of its backend, and with its path before that of the request, except for `OPTIONS *`. */
export function serverOptions(options: ForwardOptions, { settings: { timeouts, pathPrefix } }: Server): ForwardOptions {
  if (timeouts === undefined && pathPrefix === undefined) return options
  const {
    connect = options.connectTimeout,
    response = options.responseTimeout,
    idle = options.idleTimeout
  } = timeouts ?? {}
  const { head } = options
  return {
    ...options,
    head: pathPrefix === undefined || head.target === '*' ? head : { ...head, target: pathPrefix + head.target },
    connectTimeout: connect,
    responseTimeout: response,
    idleTimeout: idle
  }
}
