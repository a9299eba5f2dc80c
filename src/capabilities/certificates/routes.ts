import { type Account, callOf, sendWritten, writeMode } from '../../api/calls.js'
import { parameter, pathOf, type Router, route } from '../../api/routes.js'
import { mustSayNothing } from '../../api/service-routes.js'
import { agentIngress, reservedDomain } from '../../resources/domains.js'
import type { Resource } from '../../resources/resource.js'

/** The resources whose certificates may be managed. */
export const CERTIFIED: readonly Resource[] = [reservedDomain, agentIngress]

/** Where the managed certificate of a record is requested anew. */
export function renewalPath({ path }: Pick<Resource, 'path'>): string {
  return `${path}/{id}/certificate/renew`
}

/** Requests of managed certificates before their time. */
export function addCertificates(router: Router, { records }: Pick<Account, 'records'>): void {
  for (const resource of CERTIFIED) {
    route(router, 'POST', renewalPath(resource), { body: 'optional' }, async (request, reply) => {
      const call = callOf(request)
      records.permit(resource, 'update', call)
      const mode = writeMode(request)
      const path = pathOf(request)
      mustSayNothing(request.body, parameter(path, 'id'))
      return sendWritten(reply, await records.renewCertificate(resource, { path, ...mode }, call), 202, mode)
    })
  }
}
