import { defineCapability } from '../../app/capability.js'
import {
  AGENT_NUMBERS,
  AGENTS_ADDRESS,
  DATA_PLANE_PARTS,
  LIVE_SOURCES,
  RELOAD_STEPS,
  SNAPSHOT_FOLLOWERS,
  TUNNELS
} from '../../app/ports.js'
import { CodedError } from '../../lib/errors.js'
import { agentIngress } from '../../resources/domains.js'
import { botUser, credential } from '../../resources/identities.js'
import { agentListenerErrors } from './agents/listener-identity.js'
import { tunnelErrors } from './errors.js'
import { AGENTS, createAgents, openAgents, sharesListener } from './open-agents.js'

/** Kinds of records that agents follow. */
const FOLLOWED = [agentIngress.name, credential.name, botUser.name]

/** Lets agents connect, and leads traffic to them. */
export const tunnel = defineCapability({
  name: 'tunnel',
  errors: tunnelErrors,
  stages: {
    founded({ options, foundation, opened }) {
      const agents = createAgents(options, foundation)
      opened.put(AGENTS, agents)
      opened.put(TUNNELS, agents.groups)
      opened.put(LIVE_SOURCES, agents.live)
      opened.put(AGENT_NUMBERS, agents)
      opened.add(SNAPSHOT_FOLLOWERS, agents)
      opened.add(RELOAD_STEPS, ({ listeners }) => {
        if (!sharesListener(options, options.listeners) || sharesListener(options, listeners)) return undefined
        const message = 'agents: the TLS listener that they share cannot go while the process runs'
        throw new CodedError(agentListenerErrors.AGENTS_ADDRESS, message)
      })
      foundation.revisions.add({
        served: () => agents.written(),
        settled: (kinds) => (FOLLOWED.some((kind) => kinds.has(kind)) ? agents.followed() : undefined)
      })
    },
    sealed({ options, opened }) {
      const { agents: at, listeners } = options
      if (at === undefined || !sharesListener(options, listeners)) return
      opened.add(DATA_PLANE_PARTS, { beside: { at, handler: opened.get(AGENTS).shared } })
    },
    async admitting({ options, foundation, opened, store, control: { own } }) {
      const parts = { agents: opened.get(AGENTS), store: store.store, own }
      const listening = await openAgents(options, foundation, parts)
      if (listening !== undefined) opened.put(AGENTS_ADDRESS, listening)
    }
  }
})
