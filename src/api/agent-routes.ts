import type { SessionCommand } from '../control/cluster/live-sources.js'
import { memberRights } from '../control/rights.js'
import { tunnelSession } from '../resources/live.js'
import { title } from '../schema/json-schema.js'
import type { Account } from './calls.js'
import { defineRoute, type RouteGroup } from './define-route.js'

interface AgentService {
  readonly account: Pick<Account, 'records'>
}

const COMMANDS: readonly SessionCommand[] = ['stop', 'restart', 'update']

const sendCommand = (command: SessionCommand) =>
  defineRoute({
    method: 'POST',
    path: `${tunnelSession.path}/{id}/${command}`,
    id: `${tunnelSession.name}_${command}`,
    summary: `Tells the agent to ${command}.`,
    member: memberRights(tunnelSession).command,
    body: 'command',
    status: 204,
    answers: 'The agent was told.',
    run: ({ params, call }, { account }: AgentService) =>
      account.records.commandSession((params as { readonly id: string }).id, command, call)
  })

/** Commands to connected agents. They change no record, so they make no revision. */
export const agentRoutes: RouteGroup<AgentService> = {
  tag: title(tunnelSession.name),
  routes: COMMANDS.map(sendCommand)
}
