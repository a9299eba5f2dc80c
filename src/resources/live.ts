import Type from 'typebox'
import { kept, keptText, keptTime } from '../schema/fields.js'
import { ref } from '../schema/references.js'
import { credential } from './identities.js'
import { defineResource } from './resource.js'

const map = Type.Unsafe<Readonly<Record<string, string>>>({
  type: 'object',
  additionalProperties: { type: 'string', description: 'Value of the label.' }
})

/** Connected agent. Exists in memory only; never stored. */
export const tunnelSession = defineResource({
  name: 'tunnel_session',
  description: 'A connected agent.',
  path: '/tunnel_sessions',
  listKey: 'tunnel_sessions',
  idPrefix: 'ts',
  operations: ['get', 'list'],
  fields: {
    agent_version: keptText('Version of the agent.'),
    credential: { ...ref(credential, { description: 'What opened it.' }), settable: 'never' as const },
    ip: keptText('Address of the agent.'),
    metadata: keptText('What the agent says of itself.'),
    os: keptText('Operating system of the agent.'),
    region: keptText('Region that it is connected to.'),
    started_at: keptTime('When it connected (RFC 3339).'),
    transport: keptText('Protocol of the session.')
  }
})

const reference = Type.Object(
  { id: Type.String({ description: 'Its id.' }), uri: Type.String({ description: 'Its URL.' }) },
  { description: 'A reference to another resource.' }
)

/** A reference that only the service writes. */
export const liveRef = (description: string) =>
  kept<{ readonly id: string; readonly uri: string } | null>(reference, null, description)

/** Tunnel offered by an agent. Exists in memory only. */
export const tunnel = defineResource({
  name: 'tunnel',
  description: 'A listener of a connected agent.',
  path: '/tunnels',
  listKey: 'tunnels',
  idPrefix: 'tn',
  operations: ['get', 'list'],
  fields: {
    public_url: keptText('URL at which it is reached; empty for one that is selected by labels.'),
    started_at: keptTime('When it was opened (RFC 3339).'),
    metadata: keptText('Data of the agent.'),
    proto: keptText('http, https, tcp or tls; empty for one that is selected by labels.'),
    region: keptText('Region that its agent is connected to.'),
    tunnel_session: { ...ref(tunnelSession, { description: 'Session of its agent.' }), settable: 'never' as const },
    endpoint: liveRef('The endpoint that it serves.'),
    labels: kept<Readonly<Record<string, string>>>(map, {}, 'Labels that backends select it by.'),
    backends: kept<readonly { readonly id: string; readonly uri: string }[]>(
      Type.Array(reference),
      [],
      'Backends that select it.'
    ),
    forwards_to: keptText('Where the agent forwards to.')
  }
})
