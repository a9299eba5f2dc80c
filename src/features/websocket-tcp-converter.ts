import { createHash } from 'node:crypto'
import type { Flow } from '../flow/flow.js'
import { refuse, type Verdict } from '../flow/verdict.js'
import { defineErrors } from '../lib/errors.js'
import { defineFeature, defineModule } from './contract.js'

/** Error codes of the module websocket_tcp_converter. */
const websocketErrors = defineErrors({
  WEBSOCKET_REQUIRED: {
    status: 426,
    text: 'The route serves WebSocket connections only.',
    help: 'Connect with a WebSocket client.'
  },
  WEBSOCKET_HANDSHAKE: {
    status: 400,
    text: 'The handshake of the WebSocket is wrong.',
    help: 'Correct the client: the handshake does not follow RFC 6455.'
  }
})

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** Sixteen bytes in base64 (RFC 6455 4.1). */
const KEY = /^[A-Za-z0-9+/]{21}[AQgw]==$/
/** Verdict for a request without WebSocket (RFC 9110 15.5.22, RFC 6455 4.4). */
const REQUIRED = refuse(websocketErrors.WEBSOCKET_REQUIRED, ['upgrade', 'websocket', 'sec-websocket-version', '13'])
/** Verdict for an invalid handshake. */
const BROKEN = refuse(websocketErrors.WEBSOCKET_HANDSHAKE)

/**
 * Connects WebSocket clients to an upstream with any protocol over TCP: the content of binary messages is sent to it, and its bytes become
 * binary messages. Of the offered subprotocols `binary` is selected, otherwise the first; a text message closes the connection (close code
 * 1003).
 */
const routeModule = defineModule({
  name: 'websocket_tcp_converter',
  description:
    'Turns WebSockets into TCP connections to the backend: what binary messages hold is sent there, and what comes from there is sent as binary messages. Other requests get 426.',
  on: ['https'],
  fields: {},
  compile: () => ({
    request(flow: Flow): Verdict | undefined {
      const { request } = flow
      if (request === undefined) return undefined
      const { headers } = request
      const asks = headers.get('upgrade')?.toLowerCase() === 'websocket'
      if (!asks || request.method !== 'GET' || headers.get('sec-websocket-version') !== '13') return REQUIRED
      const key = headers.get('sec-websocket-key') ?? ''
      if (!KEY.test(key)) return BROKEN
      const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')
      const protocol = chosen(headers.values('sec-websocket-protocol'))
      flow.speaksBytes = {
        headers: [
          'upgrade',
          'websocket',
          'sec-websocket-accept',
          accept,
          ...(protocol === undefined ? [] : ['sec-websocket-protocol', protocol])
        ]
      }
      return undefined
    }
  })
})

/** Returns the subprotocol: clients that offer some and get none give up. `base64` would require text messages. */
function chosen(lines: readonly string[]): string | undefined {
  const offered = lines.flatMap((line) => line.split(',')).map((name) => name.trim())
  const usable = offered.filter((name) => /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && name !== 'base64')
  return usable.find((name) => name === 'binary') ?? usable[0]
}

export const websocketTcpConverter = defineFeature({
  name: 'websocket-tcp-converter',
  summary: 'Forwards the bytes of WebSocket connections to a TCP upstream.',
  modules: [routeModule],
  errors: [websocketErrors]
})
