import type { Static } from 'typebox'
import { parse } from 'yaml'
import { CodedError } from '../../lib/errors.js'
import { flag, object, optional, text } from '../../schema/values.js'
import { loginStartErrors } from './provider-fetch.js'
import { type Application, PROVIDER_NAMES, PROVIDERS, type Provider, type ProviderName } from './providers.js'

const url = (description: string) => optional(text({ description, pattern: '^https?://[^/?#][^?#]*$' }))
const line = (description: string) => optional(text({ description, min: 1, max: 4096 }))

const entry = object(
  {
    client_id: line('Id of the application that routes and policies without one of their own use.'),
    client_secret: line('Its secret.'),
    issuer: url('gitlab, google, linkedin: another issuer, such as a GitLab of your own.'),
    authorization_url: url('The others: where users log in.'),
    token_url: url('The others: where tokens are given.'),
    api_url: url('The others: base of the API that says who a user is.'),
    assume_email_verified: optional(
      flag({
        description:
          'All but github and microsoft: do addresses count of which the provider says nothing (email_verified)?'
      })
    )
  },
  { description: 'An identity provider.' }
)

/** Operator's file of identity providers. */
export const providersFile = object(
  Object.fromEntries(PROVIDER_NAMES.map((name) => [name, optional(entry)])) as Record<
    ProviderName,
    ReturnType<typeof optional<typeof entry>>
  >,
  { description: 'Identity providers by name.' }
)

/** Providers whose responses state which addresses are verified. */
const SELF_TELLING: ReadonlySet<ProviderName> = new Set(['github', 'microsoft'])

/** Provider with the operator's application. */
interface OperatorProvider {
  readonly provider: Provider
  readonly application: Application | undefined
}

/** Operator's settings by provider. */
export type OperatorProviders = Readonly<Record<ProviderName, OperatorProvider>>

/**
 * Reads the operator's file: a YAML map of providers with `client_id`, `client_secret` and other URLs. Fails with a CodedError
 * `LOGIN_PROVIDERS_INVALID` that contains the path and never a value.
 */
export async function readOperatorProviders(yaml: string): Promise<OperatorProviders> {
  const written = parsed(yaml) ?? {}
  // Takes a tenth of the start time, and few installations have the file.
  const { Check, Errors } = await import('typebox/value')
  if (!Check(providersFile, written)) {
    const [first] = Errors(providersFile, written)
    throw invalid(
      `${first?.instancePath.slice(1).replaceAll('/', '.') || 'the file'} ${first?.message ?? 'is not valid'}`
    )
  }
  return operatorProviders(written)
}

/** Returns the providers without operator settings. */
export function defaultProviders(): OperatorProviders {
  return operatorProviders({})
}

function operatorProviders(written: Partial<Record<ProviderName, Static<typeof entry>>>): OperatorProviders {
  return Object.fromEntries(
    PROVIDER_NAMES.map((name) => [name, operatorProvider(name, written[name] ?? {})])
  ) as unknown as OperatorProviders
}

function operatorProvider(name: ProviderName, given: Static<typeof entry>): OperatorProvider {
  const { client_id, client_secret, issuer, authorization_url, token_url, api_url, assume_email_verified } = given
  if ((client_id === undefined) !== (client_secret === undefined)) {
    throw invalid(`${name} needs client_id and client_secret together`)
  }
  const application = client_id === undefined ? undefined : { id: client_id, secret: client_secret as string }
  if (assume_email_verified !== undefined && SELF_TELLING.has(name)) {
    throw invalid(`${name} tells of each address whether it is verified, and takes no assume_email_verified`)
  }
  const usual = PROVIDERS[name]
  const provider = assume_email_verified === undefined ? usual : { ...usual, vouches: assume_email_verified }
  if (provider.kind === 'openid') {
    if ((authorization_url ?? token_url ?? api_url) !== undefined)
      throw invalid(`${name} takes issuer and no other address`)
    return { application, provider: issuer === undefined ? provider : { ...provider, issuer } }
  }
  for (const [field, address] of Object.entries({ authorization_url, token_url, api_url })) {
    if (address !== undefined && !URL.canParse(address)) throw invalid(`${name}.${field} is no URL`)
  }
  if (issuer !== undefined) throw invalid(`${name} takes authorization_url, token_url and api_url, no issuer`)
  return {
    application,
    provider: {
      ...provider,
      issuer: authorization_url === undefined ? provider.issuer : issuerAt(authorization_url, provider.issuer),
      authorization: authorization_url ?? provider.authorization,
      token: token_url ?? provider.token,
      api: (api_url ?? provider.api).replace(/\/$/, '')
    }
  }
}

/** Returns the issuer of a self-hosted provider: the usual path at its own origin, as GitHub Enterprise does. */
function issuerAt(authorization: string, usual: string): string {
  return new URL(authorization).origin + new URL(usual).pathname.replace(/\/$/, '')
}

function parsed(yaml: string): unknown {
  try {
    return parse(yaml)
  } catch (error) {
    // The parser's message quotes the text, which contains secrets.
    throw invalid('the file is no YAML', { cause: error instanceof Error ? error.name : undefined })
  }
}

function invalid(message: string, options?: ErrorOptions): CodedError {
  return new CodedError(loginStartErrors.LOGIN_PROVIDERS_INVALID, `login.providers: ${message}`, options)
}
