import type { Flow, Phase } from '../flow/flow.js'
import type { Verdict } from '../flow/verdict.js'
import type { CompiledPolicy } from '../policy/compile.js'
import { watchEventStream } from '../policy/event-stream.js'
import { greaterReading } from '../policy/response-reading.js'
import { runPhase } from '../policy/run.js'
import { defineModule, type Step } from './contract.js'

/** Runs the traffic policy. The policy is found by key at each step, so that a changed policy leaves its routes alone. */
export const trafficPolicy = defineModule<{ policy: string }>('traffic_policy', ({ policy: key }, { services }) => {
  const step =
    (phase: Phase): Step =>
    (flow, units) => {
      const rules = units.policy(key)?.phases[phase]
      return rules ? runPhase(rules, flow) : undefined
    }
  const request = step('on_http_request')
  const response = step('on_http_response')
  return {
    logins: (units) => units.policy(key)?.logins.map(({ gate }) => gate) ?? [],
    request(flow, units) {
      if (flow.own !== undefined) return answerOwn(flow, units.policy(key))
      const reads = units.policy(key)?.reads
      if (reads !== undefined) flow.reads = greaterReading(flow.reads, reads)
      return request(flow, units)
    },
    response(flow, units) {
      const verdict = response(flow, units)
      const messages = units.policy(key)?.phases.on_event_stream_message
      if (!messages) return verdict
      const watch = () => watchEventStream(messages, flow, services.bodies)
      return verdict instanceof Promise ? verdict.then((late) => late ?? watch()) : (verdict ?? watch())
    },
    connect: step('on_tcp_connect')
  }
})

/** No rule sees a request for a path of a login: what it says of other requests need not hold for these. */
function answerOwn(flow: Flow, policy: CompiledPolicy | undefined): Verdict | undefined | Promise<Verdict> {
  const login = policy?.logins.find(({ gate }) => gate === flow.own?.by)
  if (login === undefined) return undefined
  flow.decidedBy = login.decidedBy
  login.decided.inc()
  return flow.own?.answer(flow)
}
