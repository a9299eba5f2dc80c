import { createHash } from 'node:crypto'
import type { Session } from './session.js'

/** Who may pass; a user who stands in one of the lists does. */
export interface AccessLists {
  readonly email_addresses?: readonly string[]
  readonly email_domains?: readonly string[]
  /** `<organization>/<team>` or the number of a team. */
  readonly teams?: readonly string[]
  readonly organizations?: readonly string[]
}

interface MembershipLists {
  readonly teams: ReadonlySet<string>
  readonly organizations: ReadonlySet<string>
  /** The same for the same lists. Sessions hold of a user's memberships those that stand in lists, and the mark of these. */
  readonly mark: string
}

export interface Access {
  /** Undefined: whatever the provider says about memberships does not matter. */
  readonly memberships: MembershipLists | undefined
  allows(session: Session): boolean
}

/** Without any list everybody passes whom the provider knows. Letters count without their case. */
export function accessOf(lists: AccessLists): Access {
  const [addresses, domains] = [setOf(lists.email_addresses), setOf(lists.email_domains)]
  const [teams, organizations] = [setOf(lists.teams), setOf(lists.organizations)]
  const open = addresses.size + domains.size + teams.size + organizations.size === 0
  return {
    memberships: teams.size + organizations.size === 0 ? undefined : membershipLists(teams, organizations),
    allows: ({ profile, ...session }) =>
      open ||
      profile.emails.some((email) => addresses.has(email) || domains.has(email.slice(email.lastIndexOf('@') + 1))) ||
      session.teams.some((team) => teams.has(team)) ||
      session.organizations.some((organization) => organizations.has(organization))
  }
}

function membershipLists(teams: ReadonlySet<string>, organizations: ReadonlySet<string>): MembershipLists {
  const text = JSON.stringify([[...teams].sort(), [...organizations].sort()])
  return { teams, organizations, mark: createHash('sha256').update(text).digest('base64url').slice(0, 11) }
}

function setOf(list: readonly string[] = []): ReadonlySet<string> {
  return new Set(list.map((entry) => entry.toLowerCase()))
}
