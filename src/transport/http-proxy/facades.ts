import type { IncomingMessage, ServerResponse } from 'node:http'
import httpProxy from 'http-proxy'

/** The parts of http-proxy's options that a request uses. */
interface RequestParts {
  readonly method: string
  /** node:http asks it for a connection. */
  readonly agent: { readonly protocol: string; addRequest(request: object): void }
  /** http-proxy lets it write the body. */
  readonly buffer: { pipe(sink: object): void }
}

const TARGET = { protocol: 'http:', host: 'upstream', port: 80 }

/**
 * http-proxy never sees a client: what it reads of a request stands in its options, and these two façades, shared
 * by all requests, answer the questions it asks besides. `finished` keeps it from listening to the answer.
 */
const REQUEST = {
  method: 'GET',
  url: '/',
  headers: {},
  socket: { destroyed: false },
  on(): void {
    // Aborts and errors of the client reach the back through the exchange's signal.
  }
}
const RESPONSE = { finished: true, headersSent: true }

/** Begins a request and reports its errors; the answer is taken from the request itself. */
export type Requester = (parts: RequestParts, failed: (error: NodeJS.ErrnoException) => void) => void

export function requester(): Requester {
  const proxy = httpProxy.createProxyServer({})
  // Of its passes only `stream` sends; `deleteLength` breaks the framing of a chunked DELETE, the others touch
  // time-outs and forwarding fields that are written elsewhere.
  const passes = proxy as unknown as { webPasses: { name: string }[] }
  passes.webPasses = passes.webPasses.filter((pass) => pass.name === 'stream')
  return (parts, failed) => {
    proxy.web(
      REQUEST as unknown as IncomingMessage,
      RESPONSE as unknown as ServerResponse,
      {
        target: TARGET,
        // The path is set on the request: http-proxy would join its slashes.
        toProxy: true,
        selfHandleResponse: true,
        method: parts.method,
        agent: parts.agent,
        buffer: parts.buffer as unknown as NonNullable<httpProxy.ServerOptions['buffer']>
      },
      failed
    )
  }
}
