import t from 'tap'
import { httpProxyBack } from '../../../src/transport/http-proxy/client.js'
import { nodeServerTransport } from '../../../src/transport/http-proxy/server.js'
import { codecBack } from '../../../src/transport/http1/forwarding.js'
import { codecServerTransport } from '../../../src/transport/http1/server.js'
import { breaks } from '../../transport/suite/breaks.js'
import { connections } from '../../transport/suite/connections.js'
import { endings } from '../../transport/suite/endings.js'
import type { Make } from '../../transport/suite/harness.js'
import { requests } from '../../transport/suite/requests.js'
import { responses } from '../../transport/suite/responses.js'
import { storms } from '../../transport/suite/storms.js'
import { AgentServer } from './agent-server.js'
import { TunnelledUpstreams } from './tunnelled.js'

const server = await AgentServer.start(t)
const upstreams = new TunnelledUpstreams(server)
t.teardown(() => upstreams.stop())

const engines: readonly (readonly [string, (again: boolean) => Make])[] = [
  [
    'codec',
    (again) => (parts) => ({ front: codecServerTransport(parts), back: upstreams.through(codecBack(parts), again) })
  ],
  [
    'http-proxy',
    (again) => (parts) => ({ front: nodeServerTransport(parts), back: upstreams.through(httpProxyBack(parts), again) })
  ]
]
for (const [name, make] of engines) {
  t.test(`${name} through a tunnel: requests`, async (t) => requests(t, make(true)))
  // Failures have their kinds here, so nothing is tried again.
  t.test(`${name} through a tunnel: responses`, async (t) => responses(t, make(false)))
  t.test(`${name} through a tunnel: breaks and time-outs`, async (t) => breaks(t, make(false)))
  t.test(`${name} through a tunnel: endings`, async (t) => endings(t, make(true)))
  t.test(`${name} through a tunnel: connections`, async (t) => connections(t, make(true)))
  t.test(`${name} through a tunnel: storms`, async (t) => storms(t, make(true)))
}
