import type { Flow } from '../../flow/flow.js'
import { allowOrBlock, type EventRecord, type Feature, lastResults } from '../contract.js'
import { applicationOf } from './gate.js'
import type { LoginResult } from './service.js'

const RESULTS: readonly LoginResult[] = ['oauth', 'saml', 'oidc']

function decision({ flow, code }: EventRecord): string | null {
  const found = RESULTS.map((name) => lastResults(flow, name)).filter((results) => results !== undefined)
  if (found.length > 0) return allowOrBlock(found.every((results) => results['error.code'] === ''))
  // Responses during a login, and gates that cannot work, publish nothing.
  const asked = code === 'LOGIN_UNAVAILABLE' || (flow !== undefined && applicationOf(flow) !== undefined)
  return asked ? allowOrBlock(false) : null
}

function identity(flow: Flow | undefined, name: string): unknown {
  for (const login of RESULTS) {
    const value = lastResults(flow, login)?.[name]
    if (value !== undefined) return value
  }
  return null
}

/** Event fields of logins. */
export const loginEventFields: NonNullable<Feature['eventFields']> = {
  http: {
    'oauth.app_client_id': {
      type: 'string',
      description: 'Client id of the application that users log in with; null without a login.',
      read: ({ flow }) => (flow === undefined ? null : (applicationOf(flow) ?? null))
    },
    'oauth.decision': {
      type: 'string',
      description: 'allow or block (a login in progress too), by OAuth or OpenID Connect; null when neither was asked.',
      read: decision
    },
    'oauth.user.id': {
      type: 'string',
      description: 'Id that the provider gives to the user; null without a session.',
      read: ({ flow }) => identity(flow, 'identity.provider_user_id')
    },
    'oauth.user.name': {
      type: 'string',
      description: 'Name of the user at the provider; null without a session.',
      read: ({ flow }) => identity(flow, 'identity.name')
    }
  }
}
