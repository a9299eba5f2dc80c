import t from 'tap'
import { engines } from '../../../helpers/sluice.js'
import { sdkAgent } from '../sdk-agent.js'
import { Upstream } from '../upstream.js'
import { runProductSuite } from './product-suite.js'
import { HOST, LABELS, startShared, visitTls } from './shared.js'

// An exit before the last test must not look like success.
t.plan(2 * engines.length + 5)
runProductSuite(sdkAgent)

for (const engine of engines) {
  t.test(`SDK, ${engine}: the port of visitors`, async (t) => {
    const { port, token, agents } = await startShared(t, { engine })
    const upstream = await Upstream.start(t)
    const agent = await sdkAgent.start(agents, token, { labels: LABELS, target: upstream.port })
    t.same(await visitTls(port, HOST, { path: '/a', alpn: ['http/1.1'] }), { status: 200, body: 'hello from /a' })
    t.same(await visitTls(port, undefined, { path: '/b' }), { status: 200, body: 'hello from /b' })
    t.same(await visitTls(port, 'localhost', { path: '/c' }), { status: 200, body: 'hello from /c' })
    await agent.close()
  })
}

// Its threads outlive their sessions and would hold the process.
t.teardown(() => process.exit())
