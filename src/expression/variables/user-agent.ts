import type { Flow } from '../../flow/flow.js'
import type { UserAgents } from '../../lib/user-agent.js'
import type { VariableDefinition } from './definition.js'
import { derive, requestOf } from './message.js'

/** `req.user_agent.*`: the header is parsed when a member is read. */
export function userAgentVariables(userAgents: UserAgents): readonly VariableDefinition[] {
  const header = (flow: Flow) => requestOf(flow).headers.get('user-agent') ?? ''
  const agent = (flow: Flow) =>
    derive(flow, 'expression.req.user_agent', header(flow), (text) => userAgents.parse(text))
  const lines: readonly VariableDefinition[] = [
    { path: 'req.user_agent', type: 'string', read: header },
    { path: 'req.user_agent.name', type: 'string', read: (flow) => agent(flow).name },
    { path: 'req.user_agent.version', type: 'string', read: (flow) => agent(flow).version },
    { path: 'req.user_agent.os', type: 'string', read: (flow) => agent(flow).os },
    { path: 'req.user_agent.os_version', type: 'string', read: (flow) => agent(flow).osVersion },
    { path: 'req.user_agent.device', type: 'string', read: (flow) => agent(flow).device },
    { path: 'req.user_agent.url', type: 'string', read: (flow) => agent(flow).url },
    { path: 'req.user_agent.is_mobile', type: 'bool', read: (flow) => agent(flow).isMobile },
    { path: 'req.user_agent.is_tablet', type: 'bool', read: (flow) => agent(flow).isTablet },
    { path: 'req.user_agent.is_desktop', type: 'bool', read: (flow) => agent(flow).isDesktop },
    { path: 'req.user_agent.is_bot', type: 'bool', read: (flow) => agent(flow).isBot }
  ]
  return lines.map((line) => ({ ...line, phases: 'http' }))
}
