import type { CapabilityErrors } from '../../app/capability.js'
import { agentAuthorityErrors, agentListenerErrors } from './agents/listener-identity.js'
import { agentErrors } from './client/connection.js'
import { streamErrors } from './protocol/stream-errors.js'

/** Error codes of agents and of the listener for them. */
export const tunnelErrors: CapabilityErrors = {
  'Start and store': [agentListenerErrors, agentAuthorityErrors],
  Agents: [agentErrors, streamErrors]
}
