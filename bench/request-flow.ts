import { type EntryFacts, Flow } from '../src/flow/flow.js'
import { HeaderFields, type HeaderList } from '../src/flow/headers.js'
import { RequestTarget } from '../src/flow/target.js'

const CONNECTION = {
  id: 1,
  listener: 'http',
  peer: { address: '192.0.2.10', port: 40_000 },
  local: { address: '192.0.2.1', port: 80 },
  startedAt: 0,
  bytesIn: 0,
  bytesOut: 0
} as const
const ENTRY: EntryFacts = { id: 'ep_1', protocol: 'http', host: 'app.example.com', port: 80, region: '' }
const TARGET = RequestTarget.fromUrl('http://app.example.com/orders') as RequestTarget
const NO_BODY = new Uint8Array(0)

/** A GET as the proxy makes a flow of it, without a socket behind it. `headers`: name and value by turns. */
export function requestFlow(headers: HeaderList): Flow {
  const flow = new Flow(CONNECTION, ENTRY, '192.0.2.10', 40_000)
  const head = {
    method: 'GET',
    target: '/orders',
    authority: 'app.example.com',
    scheme: 'http',
    version: '1.1',
    headers
  } as const
  flow.request = {
    head,
    version: '1.1',
    scheme: 'http',
    authority: 'app.example.com',
    method: 'GET',
    target: TARGET,
    headers: new HeaderFields([...headers]),
    body: NO_BODY,
    pathForm: 'strict',
    receivedAt: 0
  }
  return flow
}
