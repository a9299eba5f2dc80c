import Type from 'typebox'
import { kept, keptText, keptTextOrNull, keptTime } from '../schema/fields.js'
import { liveRef } from './live.js'
import { defineResource } from './resource.js'

const text = (description: string) => Type.String({ description })
const orNull = (type: ReturnType<typeof Type.String> | ReturnType<typeof Type.Number>, description: string) =>
  Type.Union([type, Type.Null()], { description })

const identityProvider = Type.Object(
  { name: text('Its name, such as GitHub.'), url: text('Its URL, or the entity id of an identity provider of SAML.') },
  { description: 'An identity provider.' }
)

const browserSession = Type.Object(
  {
    user_agent: Type.Object(
      {
        raw: text('The header User-Agent of the login.'),
        browser_name: orNull(Type.String(), 'Name of the browser.'),
        browser_version: orNull(Type.String(), 'Version of the browser.'),
        device_type: orNull(Type.String(), 'desktop, mobile, tablet or bot.'),
        os_name: orNull(Type.String(), 'Name of the operating system.'),
        os_version: orNull(Type.String(), 'Version of the operating system.')
      },
      { description: 'The browser.' }
    ),
    ip_address: text('Address of the client at the login.'),
    location: Type.Union(
      [
        Type.Object({
          country_code: orNull(Type.String(), 'Country of the address (ISO 3166-1).'),
          latitude: orNull(Type.Number(), 'Latitude of the address.'),
          longitude: orNull(Type.Number(), 'Longitude of the address.'),
          lat_long_radius_km: orNull(Type.Number(), 'How precise that is, in kilometers.')
        }),
        Type.Null()
      ],
      { description: 'Place of the address; null if it is not known.' }
    )
  },
  { description: 'The browser of a session.' }
)

/** Content of `browser_session`. */
type BrowserSession = {
  readonly user_agent: Readonly<Record<string, string | null>>
  readonly ip_address: string
  readonly location: Readonly<Record<string, string | number | null>> | null
}

/** User of a login at a site. */
export const applicationUser = defineResource({
  name: 'application_user',
  description: 'A user who has logged in at a site. Deleting it ends all sessions of the user.',
  path: '/app/users',
  listKey: 'application_users',
  idPrefix: 'au',
  operations: ['get', 'list', 'delete'],
  fields: {
    identity_provider: kept<{ readonly name: string; readonly url: string }>(
      identityProvider,
      { name: '', url: '' },
      'Where the user logged in.'
    ),
    provider_user_id: keptText('Id that the identity provider gives to the user.'),
    username: keptTextOrNull('Always null: the same as provider_user_id or email.'),
    email: keptTextOrNull('Address of the user.'),
    name: keptTextOrNull('Name of the user.'),
    last_active: keptTime('Last request (RFC 3339), to a minute.'),
    last_login: keptTime('Last login (RFC 3339).')
  }
})

/** Session of a user at a site. */
export const applicationSession = defineResource({
  name: 'application_session',
  description: 'A session of a user at a site. Deleting it logs the user out, everywhere at once.',
  path: '/app/sessions',
  listKey: 'application_sessions',
  idPrefix: 'as',
  operations: ['get', 'list', 'delete'],
  fields: {
    public_url: keptText('Scheme, host and port of the site.'),
    browser_session: kept<BrowserSession | null>(browserSession, null, 'The browser of the login.'),
    application_user: liveRef('The user.'),
    last_active: keptTime('Last request (RFC 3339), to a minute.'),
    expires_at: keptTime('When the session ends at the latest (RFC 3339).'),
    endpoint: liveRef('The endpoint whose policy asked for the login.'),
    edge: liveRef('The edge of the route.'),
    route: liveRef('The route that asked for the login.')
  }
})
