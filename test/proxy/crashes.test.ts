import t from 'tap'
import type { Forwards } from '../../src/proxy/forwarder.js'
import { localResponse } from '../../src/proxy/response.js'
import { pipelineWith } from '../helpers/pipeline.js'

const POLICY = 'on_http_request: []'

/** Ways in which a part of the proxy can fail while it works for an exchange. */
const CRASHES: Readonly<Record<string, Forwards['forward']>> = {
  'forwarding fails at once': () => {
    throw new TypeError('broken')
  },
  'forwarding fails later': (_exchange, _flow, order) => {
    setImmediate(() => order.crashed(new TypeError('broken')))
  },
  'what has come cannot be sent': (_exchange, _flow, order) => {
    const response = localResponse(200, [])
    Object.defineProperty(response, 'transforms', {
      get() {
        throw new TypeError('broken')
      }
    })
    setImmediate(() => order.forwarded({ response, duration: 1 }))
  }
}

for (const [name, forward] of Object.entries(CRASHES)) {
  t.test(`${name}: 500, and the exchange is over`, async (t) => {
    const errors: object[] = []
    const { send, metrics } = pipelineWith(POLICY, forward, { error: (fields) => errors.push(fields) })
    const { exchange, served } = send('/')
    await served
    t.match(await exchange.answer, { status: 500, headers: ['sluice-error-code', 'INTERNAL_ERROR'] })
    t.match(errors, [{ err: { message: 'broken' } }])
    t.equal(metrics.inFlight.value, 0)
  })
}

t.test('what fails at the end of an exchange ends nothing else', async (t) => {
  const errors: object[] = []
  const { send } = pipelineWith(
    POLICY,
    (_exchange, flow, order) => {
      flow.onEnd(() => {
        throw new TypeError('broken')
      })
      order.forwarded({ response: localResponse(204, []), duration: 1 })
    },
    { error: (fields) => errors.push(fields) }
  )
  const { exchange, served } = send('/')
  await served
  t.match(await exchange.answer, { status: 204 })
  t.match(errors, [{ err: { message: 'broken' } }])
})
