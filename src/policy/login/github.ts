import { type Json, type Memberships, type Profile, type ProviderApi, textOf } from './profile.js'

/** The user and the addresses that GitHub has checked; the primary one is shown. */
export async function githubProfile(api: ProviderApi): Promise<Profile> {
  const [user, addresses] = await Promise.all([api.object('/user'), api.list('/user/emails')])
  const checked = addresses.filter(({ verified }) => verified === true)
  const primary = checked.find((address) => address.primary === true) ?? checked[0]
  const name = textOf(user.name)
  return {
    id: textOf(user.id),
    name: name === '' ? textOf(user.login) : name,
    email: textOf(primary?.email),
    emails: checked.map(({ email }) => textOf(email).toLowerCase())
  }
}

/** Teams by slug and by number, and organizations; what the token may not see is not there. */
export async function githubMemberships(api: ProviderApi): Promise<Memberships> {
  const [teams, organizations] = await Promise.all([api.list('/user/teams'), api.list('/user/orgs')])
  return {
    teams: teams.flatMap((team) => [teamOf(team), textOf(team.id)]),
    organizations: organizations.map(({ login }) => textOf(login).toLowerCase())
  }
}

function teamOf({ organization, slug }: Json): string {
  const { login } = (organization ?? {}) as Json
  return `${textOf(login)}/${textOf(slug)}`.toLowerCase()
}
