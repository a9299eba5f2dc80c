import { type Json, textOf } from './profile.js'

/**
 * An answer of a token endpoint in the form of RFC 6749 5.1 and 5.2: some providers give scopes as a list, leave the type of
 * the token out, or tell errors with status 200.
 */
export async function normalTokenAnswer(answer: Response): Promise<Response> {
  const text = await answer.text()
  const body = jsonObject(text)
  if (body === undefined) return new Response(text, { status: answer.status, headers: answer.headers })
  const { scope, token_type, error, ...rest } = body
  const failed = error !== undefined && body.access_token === undefined
  const normal = {
    ...rest,
    ...(error === undefined ? { token_type: token_type ?? 'bearer' } : { error: errorOf(error) }),
    ...(scope === undefined ? {} : { scope: Array.isArray(scope) ? scope.join(' ') : textOf(scope) })
  }
  return new Response(JSON.stringify(normal), {
    status: failed && answer.status === 200 ? 400 : answer.status,
    headers: { 'content-type': 'application/json' }
  })
}

/** Facebook tells errors as objects. */
function errorOf(error: unknown): string {
  if (typeof error === 'string') return error
  return 'invalid_request'
}

function jsonObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
  } catch {
    // What is no JSON is refused by whoever reads the answer.
    return undefined
  }
}
