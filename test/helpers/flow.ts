import type { ConnectionFacts, Outgoing } from '../../src/flow/exchange.js'
import { type EntryFacts, Flow, NO_UNITS, type PinnedUnits } from '../../src/flow/flow.js'
import { HeaderFields, type HeaderList } from '../../src/flow/headers.js'
import { RequestTarget } from '../../src/flow/target.js'

export interface FlowOptions {
  /** What the flow finds in the configuration. */
  readonly units?: Partial<PinnedUnits>
  method?: string
  /** Absolute, in any form that a client may send. */
  url?: string
  /** Name and value by turns, as they stand on the wire; Host is added when it is not there. */
  headers?: HeaderList
  body?: Uint8Array
  clientAddress?: string
  clientPort?: number
  tls?: NonNullable<ConnectionFacts['tls']>
  /** 2026-01-02T03:04:05Z when left out. */
  startedAt?: number
  entry?: Partial<EntryFacts>
  /** false: a connection that carries no exchange yet. */
  request?: false
  response?: { status?: number; headers?: HeaderList; body?: Outgoing; local?: boolean }
}

/** A flow as the proxy makes it, without a socket behind it. */
export function makeFlow(options: FlowOptions = {}): Flow {
  const { clientAddress = '192.0.2.10', clientPort = 40_000, startedAt = Date.UTC(2026, 0, 2, 3, 4, 5) } = options
  const connection: ConnectionFacts = {
    id: 1,
    listener: 'http',
    peer: { address: clientAddress, port: clientPort },
    local: { address: '192.0.2.1', port: 8080 },
    startedAt,
    bytesIn: 100,
    bytesOut: 200,
    ...(options.tls === undefined ? {} : { tls: options.tls })
  }
  const entry: EntryFacts = {
    id: 'ep_1',
    protocol: 'http',
    host: 'app.example.com',
    port: 80,
    region: 'eu',
    ...options.entry
  }
  const flow = new Flow(connection, entry, clientAddress, clientPort)
  flow.units = { ...NO_UNITS, ...options.units }
  if (options.request !== false) addRequest(flow, options, startedAt)
  const { response } = options
  if (response !== undefined) {
    const { status = 200, headers = [], body = Buffer.from('hello'), local = false } = response
    flow.response = {
      status,
      reason: '',
      headers: new HeaderFields([...headers]),
      body,
      local,
      transforms: [],
      trailers: undefined
    }
  }
  return flow
}

function addRequest(flow: Flow, options: FlowOptions, receivedAt: number): void {
  const { method = 'GET', url = 'http://app.example.com/', body = new Uint8Array() } = options
  const target = RequestTarget.fromUrl(url)
  if (target === undefined) throw new Error(`Not a URL: ${url}`)
  const given = options.headers ?? []
  const hasHost = given.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'host')
  const headers = hasHost ? [...given] : ['Host', target.authority, ...given]
  const raw = url.replace(/^\w+:\/\/[^/?#]*/, '')
  flow.request = {
    head: {
      method,
      target: raw === '' ? '/' : raw,
      authority: target.authority,
      scheme: target.scheme,
      version: '1.1',
      headers
    },
    version: '1.1',
    scheme: target.scheme,
    authority: target.authority,
    method,
    target,
    pathForm: 'strict',
    headers: new HeaderFields([...headers]),
    body,
    receivedAt
  }
}
