import type { SessionCommand } from '../control/live-sources.js'
import { tunnelSession } from '../resources/live.js'
import type { Account } from './account.js'
import { callOf, type Handler, parameter, pathOf, queryOf, type Router, route } from './calls.js'
import { ApiError } from './errors.js'

export const COMMANDS: readonly SessionCommand[] = ['stop', 'restart', 'update']

/** Commands to connected agents. They change no record, so they make no revision. */
export function addSessionCommands(router: Router, account: Account): void {
  for (const command of COMMANDS) {
    route(router, 'POST', `${tunnelSession.path}/{id}/${command}`, { body: 'optional' }, send(command, account))
  }
}

function send(command: SessionCommand, account: Account): Handler {
  return async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const id = parameter(pathOf(request), 'id')
    mustSayNothing(request.body, id)
    await account.commandSession(id, command, call)
    return reply.code(204).send()
  }
}

/** Existing clients send an empty object, or the id once more. */
export function mustSayNothing(body: unknown, id: string): void {
  if (body === undefined || body === null) return
  const fields = typeof body === 'object' ? Object.entries(body) : [['', body]]
  const other = fields.find(([name, value]) => name !== 'id' || value !== id)
  if (other === undefined) return
  const field = String(other[0]).slice(0, 64)
  throw new ApiError(400, 'FIELD_UNKNOWN', 'The body of a command has no fields.', { field })
}
