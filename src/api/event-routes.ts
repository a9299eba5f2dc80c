import { eventDestination } from '../resources/event-destination.js'
import type { Account } from './account.js'
import { callOf, parameter, pathOf, queryOf, type Router, route } from './calls.js'
import { mustSayNothing } from './session-routes.js'

export const TEST_PATH = `${eventDestination.path}/{id}/test`

/** Sends a test event to a destination; what came of it is the answer, and nothing is written. */
export function addEventRoutes(router: Router, account: Account): void {
  route(router, 'POST', TEST_PATH, { body: 'optional' }, async (request, reply) => {
    const call = callOf(request)
    queryOf(request, [])
    const path = pathOf(request)
    mustSayNothing(request.body, parameter(path, 'id'))
    return reply.send(await account.testDestination({ path }, call))
  })
}
