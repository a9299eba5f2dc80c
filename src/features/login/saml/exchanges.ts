import type { Flow } from '../../../flow/flow.js'
import { respond, type Verdict } from '../../../flow/verdict.js'
import type { PolicyServices } from '../../../policy/services.js'
import type { SamlProvider } from '../providers.js'
import { LONGEST_FORM, ownMetadata } from './service-provider.js'

/** Form that a browser posts for the identity provider. */
export interface PostedResponse {
  readonly states: readonly string[]
  /** Base64; '' if the form has none, several, or a long one. */
  readonly response: string
}

/** Reads the posted form (SAML Bindings 3.5.4); a verdict if its body cannot be buffered. */
export async function postedResponse(bodies: PolicyServices['bodies'], flow: Flow): Promise<PostedResponse | Verdict> {
  const body = await bodies.request(flow)
  if (!(body instanceof Uint8Array)) return body
  const form = new URLSearchParams(body.length > LONGEST_FORM ? '' : Buffer.from(body).toString('latin1'))
  const responses = form.getAll('SAMLResponse')
  return { states: form.getAll('RelayState'), response: responses.length === 1 ? (responses[0] as string) : '' }
}

/** Returns the metadata of a service provider. */
export function metadataAnswer(entityId: string, provider: SamlProvider): Verdict {
  const headers = ['content-type', 'application/samlmetadata+xml; charset=utf-8', 'cache-control', 'no-store']
  return respond(200, headers, Buffer.from(ownMetadata(entityId, provider)))
}
