import Type from 'typebox'
import { certificateAuthority } from './certificate-authority.js'
import { defineField, type Field } from './field.js'
import { choice, computed, constant, described, texts } from './fields.js'
import { httpsEdgeRoute } from './https-edge-route.js'
import { HTTPS_EDGE } from './https-edge-target.js'
import { module } from './objects.js'
import { present } from './present.js'
import { refs } from './references.js'
import { defineResource } from './resource.js'
import { responseSchema } from './schemas.js'

/** An entry for HTTPS traffic. Its routes are resources of their own. */
export const httpsEdge = defineResource({
  ...HTTPS_EDGE,
  description: 'An entry for HTTPS traffic by host and port. Its routes say what happens to requests.',
  listKey: 'https_edges',
  events: 'edge_https',
  fields: {
    ...described,
    hostports: texts({
      description: 'host:port pairs that it serves.',
      form: 'hostport',
      bytes: 300,
      max: 100,
      distinct: true,
      unique: 'hostport'
    }),
    mutual_tls: module('Asks clients for a certificate.', {
      certificate_authorities: refs(certificateAuthority, {
        description: 'Authorities whose certificates are taken.',
        required: true,
        min: 1,
        as: 'certificate_authority_ids'
      })
    }),
    tls_termination: module('How TLS ends here.', {
      terminate_at: constant('edge', 'Where TLS ends; always edge.'),
      min_version: minVersion()
    }),
    path_form: choice(['listener', 'strict', 'lenient'], {
      description:
        'An extension of Sluice: the normal form of paths. strict merges repeated slashes and refuses encoded slashes, backslashes, ' +
        'encoded control characters and dot segments with parameters; lenient lets them pass; listener: as the listener says.',
      default: 'listener'
    }),
    routes: computed(
      Type.Array(responseSchema(httpsEdgeRoute)),
      'Its routes, oldest first.',
      (_stored, _path, { id }, context) =>
        context.children(httpsEdgeRoute.name, id).map((route) => present(httpsEdgeRoute, route, context))
    )
  }
})

function minVersion(): Field<string> {
  const version = choice(['1.2', '1.3'], { description: 'Lowest version of TLS.', default: '1.2' })
  return defineField<string>({
    ...version,
    read(written, at, path, reading) {
      if (written !== '1.0' && written !== '1.1') return version.read(written, at, path, reading)
      const message = 'must be 1.2 or 1.3: TLS 1.0 and 1.1 are broken (RFC 8996) and not spoken'
      reading.report({ field: at, code: 'FIELD_INVALID', message })
      return undefined
    }
  })
}
