import { sendWritten } from '../../api/calls.js'
import { type DefinedRoute, defineRoute, type RouteGroup } from '../../api/define-route.js'
import type { RecordOperations } from '../../control/record-operations.js'
import { memberRights } from '../../control/rights.js'
import { agentIngress, reservedDomain } from '../../resources/domains.js'
import type { Resource } from '../../resources/resource.js'
import { ref } from '../../schema/answer.js'
import { title } from '../../schema/json-schema.js'

type Renewals = Pick<RecordOperations, 'permit' | 'renewCertificate'>

function renewal(resource: Resource, path: `/${string}/{id}/certificate/renew`): DefinedRoute<Renewals> {
  return defineRoute({
    method: 'POST',
    path,
    id: `${resource.name}_certificate_renew`,
    summary:
      'Requests the managed certificate anew, before its time; the one in use serves until the new one is there. 409 when it is not ' +
      'managed, within the pause after a failed attempt, and for hours after a certificate that was asked for in this way.',
    member: memberRights(resource).update,
    permit: (call, records: Renewals) => records.permit(resource, 'update', call),
    write: true,
    body: 'command',
    status: 202,
    answers: 'The record; certificate_management_status shows how it goes.',
    answer: ref(title(resource.name)),
    etag: true,
    run: ({ params, call, mode }, records) =>
      records.renewCertificate(resource, { path: { ...params }, ...mode }, call),
    send: (reply, written, { mode }) => sendWritten(reply, written, 202, mode)
  })
}

/** Requests of managed certificates before their time, one group for each resource. */
export const certificateRoutes: readonly RouteGroup<Renewals>[] = [
  { tag: title(reservedDomain.name), routes: [renewal(reservedDomain, '/reserved_domains/{id}/certificate/renew')] },
  { tag: title(agentIngress.name), routes: [renewal(agentIngress, '/agent_ingresses/{id}/certificate/renew')] }
]
