import type { AgentCommand } from './agent-commands.js'
import type { AgentFacts } from './authority.js'
import type { Fields } from './json-object.js'
import { LEAST_SILENCE, MOST_SILENCE } from './limits.js'

const NANOSECONDS = 1e6
const DEFAULT_INTERVAL = 10_000
const DEFAULT_TOLERANCE = 15_000

/** What an agent asks for in its first call. */
export interface AuthRequest {
  readonly token: string
  /** '' for a new session. */
  readonly clientId: string
  readonly cookie: string
  /** The version of the protocol that is answered. */
  readonly version: string
  readonly leg: number
  /** Milliseconds without a heartbeat after which the agent counts as gone. */
  readonly silence: number
  /** Why the agent does not take a command; '' when it does. */
  readonly unsupported: Readonly<Record<AgentCommand, string>>
  readonly facts: AgentFacts
}

export function readAuthRequest(
  fields: Fields,
  from: { readonly ip: string; readonly serverName: string | undefined }
): AuthRequest {
  const extra = fields.object('extra')
  const versions = fields.texts('version')
  return {
    token: extra.text('authtoken'),
    clientId: fields.text('clientid'),
    cookie: extra.text('cookie'),
    version: versions.includes('3') ? '3' : '2',
    leg: extra.number('legnumber') ?? 0,
    silence: silence(extra.number('heartbeatinterval'), extra.number('heartbeattolerance')),
    unsupported: {
      stop: extra.text('stopunsupportederror'),
      restart: extra.text('restartunsupportederror'),
      update: extra.text('updateunsupportederror')
    },
    facts: {
      ...from,
      userAgent: extra.text('useragent'),
      version: extra.text('version'),
      clientType: extra.text('clienttype'),
      os: extra.text('os'),
      arch: extra.text('arch'),
      hostname: extra.text('hostname'),
      metadata: extra.text('metadata')
    }
  }
}

function silence(interval: number | undefined, tolerance: number | undefined): number {
  const asked = milliseconds(interval, DEFAULT_INTERVAL) + milliseconds(tolerance, DEFAULT_TOLERANCE)
  return Math.min(MOST_SILENCE, Math.max(LEAST_SILENCE, asked))
}

function milliseconds(nanoseconds: number | undefined, otherwise: number): number {
  return nanoseconds === undefined || !(nanoseconds > 0) ? otherwise : nanoseconds / NANOSECONDS
}
