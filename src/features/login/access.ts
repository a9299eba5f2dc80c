import { createHash } from 'node:crypto'
import { groupsIn } from './saml/claims.js'
import type { Session } from './session.js'

/** Allowed users; a match in any list is enough. */
export interface AccessLists {
  readonly email_addresses?: readonly string[]
  readonly email_domains?: readonly string[]
  /** `<organization>/<team>` or the number of a team. */
  readonly teams?: readonly string[]
  readonly organizations?: readonly string[]
  /** Groups of a SAML assertion, exactly as the identity provider writes them. */
  readonly groups?: readonly string[]
}

interface MembershipLists {
  readonly teams: ReadonlySet<string>
  readonly organizations: ReadonlySet<string>
  /** Equal for equal lists. Sessions store only memberships that are in lists, with the mark of the lists. */
  readonly mark: string
}

export interface Access {
  /** Lists of memberships; undefined if they are not used. */
  readonly memberships: MembershipLists | undefined
  allows(session: Session): boolean
}

/** Compiles the lists; without any list every user of the provider is allowed. Case-insensitive. */
export function accessOf(lists: AccessLists): Access {
  const [addresses, domains] = [setOf(lists.email_addresses), setOf(lists.email_domains)]
  const [teams, organizations] = [setOf(lists.teams), setOf(lists.organizations)]
  const groups = new Set(lists.groups)
  const open = addresses.size + domains.size + teams.size + organizations.size + groups.size === 0
  return {
    memberships: teams.size + organizations.size === 0 ? undefined : membershipLists(teams, organizations),
    allows: ({ profile, ...session }) =>
      open ||
      profile.emails.some((email) => addresses.has(email) || domains.has(email.slice(email.lastIndexOf('@') + 1))) ||
      session.teams.some((team) => teams.has(team)) ||
      session.organizations.some((organization) => organizations.has(organization)) ||
      (groups.size > 0 && groupsIn(session.attributes).some((group) => groups.has(group)))
  }
}

function membershipLists(teams: ReadonlySet<string>, organizations: ReadonlySet<string>): MembershipLists {
  const text = JSON.stringify([[...teams].sort(), [...organizations].sort()])
  return { teams, organizations, mark: createHash('sha256').update(text).digest('base64url').slice(0, 11) }
}

function setOf(list: readonly string[] = []): ReadonlySet<string> {
  return new Set(list.map((entry) => entry.toLowerCase()))
}
