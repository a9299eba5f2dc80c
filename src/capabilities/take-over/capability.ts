import { defineCapability } from '../../app/capability.js'
import { policyProblems } from '../../app/policy-check.js'
import { TUNNELS } from '../../app/ports.js'
import { actions } from '../../features/registry.js'
import { CERTIFICATES } from '../certificates/open.js'
import { EVENTS } from '../events/open-events.js'
import { AGENTS, expectHanded, expectLast } from '../tunnel/open-agents.js'
import { HandedTunnels } from '../workers/sockets/handed-tunnels.js'
import type { FromServing } from '../workers/sockets/protocol.js'
import { PREDECESSOR } from './handed.js'
import { HandingOver } from './handing-over.js'
import { SUCCESSION, stateOf, takePlace } from './succession.js'

/** Takes the place of another process, and lets another one take the place of this one. */
export const takeOver = defineCapability({
  name: 'take-over',
  stages: {
    sealed({ opened }) {
      const predecessor = opened.find(PREDECESSOR)
      if (predecessor === undefined) return
      let send: (message: FromServing) => void = () => undefined
      const tunnels = new HandedTunnels(opened.get(TUNNELS), (message) => send(message))
      send = predecessor.tunnels(tunnels)
      opened.put(TUNNELS, tunnels)
    },
    controlled({ foundation: { log }, policies, control: { own }, opened }) {
      const problemsOf = policyProblems(policies.services, actions)
      expectHanded(opened.get(AGENTS), opened.find(PREDECESSOR)?.endpoints ?? [], own, { problemsOf, log })
    },
    async opening({ foundation, counters, opened }) {
      const predecessor = opened.find(PREDECESSOR)
      if (predecessor !== undefined) await takePlace(predecessor, foundation, counters)
    },
    admitting({ foundation: { log }, control: { own }, opened }) {
      void opened.find(PREDECESSOR)?.gone.then(() => expectLast(opened.get(AGENTS), own, log))
    },
    complete(context) {
      const { options, host, foundation, dataPlane, policies, opened, keeping } = context
      const { clock, limiter } = foundation
      const handingOver = new HandingOver(options, foundation, {
        ...context,
        events: opened.get(EVENTS),
        logins: policies.login.keeper,
        certificates: opened.get(CERTIFICATES),
        counters: keeping
      })
      const { ticketKeys } = dataPlane
      const state = { clock, limiter, ticketKeys, tunnels: opened.get(TUNNELS), agents: opened.get(AGENTS) }
      opened.put(SUCCESSION, {
        handingOver,
        state: () => stateOf({ ...state, threaded: host.threads !== undefined })
      })
    }
  }
})
