import { answer, operation, type Paths, parametersOf } from '../../api/openapi-parts.js'
import { memberRights } from '../../control/rights.js'
import { ref } from '../../schema/answer.js'
import { title } from '../../schema/json-schema.js'
import { CERTIFIED, renewalPath } from './routes.js'

/** Adds requests of managed certificates. */
export function describeCertificates(paths: Paths): void {
  for (const resource of CERTIFIED) {
    const path = renewalPath(resource)
    const name = title(resource.name)
    paths[path] = {
      ...parametersOf(path),
      post: operation(
        `${resource.name}_certificate_renew`,
        name,
        'Requests the managed certificate anew, before its time; the one in use serves until the new one is there. 409 when it is not ' +
          'managed, within the pause after a failed attempt, and for hours after a certificate that was asked for in this way.',
        {
          member: memberRights(resource).update,
          parameters: ['force', 'dry_run'],
          responses: {
            202: answer('The record; certificate_management_status shows how it goes.', ref(name), ['etag'])
          }
        }
      )
    }
  }
}
