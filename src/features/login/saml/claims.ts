import { createSign } from 'node:crypto'
import type { Profile } from '../providers.js'
import type { AssertedUser } from './reading.js'

/** Names of attributes in lower case, by their meaning: common names, and those of LDAP, WS-Federation and Entra ID. */
const NAMES = {
  email: [
    'email',
    'mail',
    'emailaddress',
    'email_address',
    'urn:oid:0.9.2342.19200300.100.1.3',
    'http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress'
  ],
  name: [
    'displayname',
    'name',
    'cn',
    'urn:oid:2.16.840.1.113730.3.1.241',
    'http://schemas.microsoft.com/identity/claims/displayname',
    'http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name'
  ],
  groups: [
    'groups',
    'group',
    'memberof',
    'urn:oid:1.3.6.1.4.1.5923.1.5.1.1',
    'http://schemas.xmlsoap.org/claims/group',
    'http://schemas.microsoft.com/ws/2008/06/identity/claims/groups'
  ]
} as const

const EMAIL_FORMAT = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress'

/** Formats of a user's id that requests can ask for (SAML Core 8.3). */
export const NAME_ID_FORMATS = [
  'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
  'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
  EMAIL_FORMAT,
  'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified'
] as const

type Attributes = AssertedUser['attributes']

function attributeValues(attributes: Attributes, meaning: keyof typeof NAMES): readonly string[] {
  const names: readonly string[] = NAMES[meaning]
  return Object.entries(attributes)
    .filter(([name]) => names.includes(name.toLowerCase()))
    .flatMap(([, values]) => values)
    .filter((value) => value !== '')
}

/** Returns the groups in attributes. */
export function groupsIn(attributes: Attributes): readonly string[] {
  return [...new Set(attributeValues(attributes, 'groups'))]
}

/** Returns the profile of a user. Addresses count as verified: the owner of the route chose the identity provider. */
export function profileOfUser({ nameId, nameIdFormat, attributes }: AssertedUser): Profile {
  const emails = [...(nameIdFormat === EMAIL_FORMAT ? [nameId] : []), ...attributeValues(attributes, 'email')].filter(
    (text) => /^[^@\s]+@[^@\s]+$/.test(text)
  )
  return {
    id: nameId,
    name: attributeValues(attributes, 'name')[0] ?? '',
    email: emails[0] ?? '',
    emails: [...new Set(emails.map((email) => email.toLowerCase()))]
  }
}

/** Returns a function that signs the query of a request with an RSA key (SAML Bindings 3.4.4.1). */
export function querySigner(key: string): (query: URLSearchParams) => string {
  return (query) => {
    query.set('SigAlg', 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256')
    const text = query.toString()
    const signature = createSign('RSA-SHA256').update(text).sign(key, 'base64')
    return `${text}&${new URLSearchParams({ Signature: signature }).toString()}`
  }
}
