import Type from 'typebox'
import { defineUnavailable } from '../action.js'
import { choice, config, template, text } from '../fields.js'

const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'HS256', 'HS384', 'HS512']
] as const
const TOKEN_TYPES = ['id_token', 'access_token', 'at+jwt', 'it+jwt', 'plain', 'jwt'] as const

const token = config({
  type: choice(TOKEN_TYPES, { description: 'How the token is read.' }),
  method: choice(['header', 'body'], { description: 'Where it stands.' }),
  name: template({ description: 'Name of the header or of the field of the body.', minLength: 1 }),
  prefix: Type.Optional(template({ description: 'Text before the token.' }))
})

const keys = config({
  sources: config({
    additional_jkus: Type.Array(template({ description: 'URL of a key set.', minLength: 1 }), {
      description: 'Key sets.',
      minItems: 1
    })
  }),
  identification: Type.Optional(
    config({
      token_claims: Type.Array(choice(['kid'], { description: 'Claim that names the key.' }), {
        description: 'How the key is found.'
      })
    })
  )
})

/** Lets requests with a valid JSON Web Token pass. */
export const jwtValidation = defineUnavailable({
  type: 'jwt-validation',
  phases: ['on_http_request'],
  config: config({
    issuer: config({
      allow_list: Type.Array(config({ value: template({ description: 'Exact issuer.', minLength: 1 }) }), {
        description: 'Accepted issuers.',
        minItems: 1
      })
    }),
    audience: Type.Optional(
      config({
        allow_list: Type.Array(config({ value: text({ description: 'Exact audience.', minLength: 1 }) }), {
          description: 'Accepted audiences; the token names at least one.',
          minItems: 1
        })
      })
    ),
    http: config({ tokens: Type.Array(token, { description: 'Tokens; every one must be there.', minItems: 1 }) }),
    jws: config({
      allowed_algorithms: Type.Array(choice(ALGORITHMS, { description: 'A signature algorithm; never none.' }), {
        description: 'Accepted algorithms.',
        minItems: 1
      }),
      keys: Type.Union([keys, Type.Array(keys, { minItems: 1 })], {
        description: 'Where keys come from; a map, or a list of such maps.'
      })
    })
  }),
  configOptional: false,
  terminates: 'sometimes',
  results: {
    name: 'jwt_validation',
    fields: { tokens: 'list<dyn>', 'error.code': 'string', 'error.message': 'string' }
  }
})
