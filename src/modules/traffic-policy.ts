import type { Phase } from '../exchange/flow.js'
import { watchEventStream } from '../policy/event-stream.js'
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
  const response = step('on_http_response')
  return {
    request: step('on_http_request'),
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
