import { AwsV4Signer } from 'aws4fetch'
import t from 'tap'
import { refusalOf, type SignedRequest } from './sigv4.js'

const KEY = { id: 'AKIDEXAMPLE', secret: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
const SCOPE = { ...KEY, region: 'us-east-1', service: 'service' }
const AT = '20150830T123600Z'
const HOST = 'example.amazonaws.com'

interface Vector {
  readonly name: string
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signature: string
}

/** Of the test suite that AWS publishes. */
const VECTORS: readonly Vector[] = [
  {
    name: 'get-vanilla',
    method: 'GET',
    path: '/',
    signature: '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'
  },
  {
    name: 'post-vanilla',
    method: 'POST',
    path: '/',
    signature: '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b'
  },
  {
    name: 'get-vanilla-query-order-key-case',
    method: 'GET',
    path: '/?Param2=value2&Param1=value1',
    signature: 'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500'
  },
  {
    name: 'post-x-www-form-urlencoded',
    method: 'POST',
    path: '/',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'Param1=value1',
    signature: 'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a'
  }
]

function received({ method, path, headers = {}, body = '', signature }: Vector): SignedRequest {
  const names = [...Object.keys(headers), 'host', 'x-amz-date'].join(';')
  const scope = `${KEY.id}/20150830/us-east-1/service/aws4_request`
  const authorization = `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=${names}, Signature=${signature}`
  return { method, path, body, headers: { ...headers, host: HOST, 'x-amz-date': AT, authorization } }
}

for (const vector of VECTORS) {
  t.test(`published vector ${vector.name}`, async (t) => {
    const request = received(vector)
    t.equal(refusalOf(request, SCOPE), undefined, 'the verifier of these tests takes it')
    const wrong = { ...request, body: `${request.body}x` }
    t.equal(refusalOf(wrong, SCOPE), 'the signature does not match')
    t.equal(refusalOf(request, { ...SCOPE, secret: 'other' }), 'the signature does not match')
    const signer = new AwsV4Signer({
      method: vector.method,
      url: `https://${HOST}${vector.path}`,
      headers: { ...vector.headers },
      ...(vector.body === undefined ? {} : { body: vector.body }),
      accessKeyId: KEY.id,
      secretAccessKey: KEY.secret,
      region: 'us-east-1',
      service: 'service',
      datetime: AT,
      allHeaders: true
    })
    const { headers } = await signer.sign()
    t.equal(headers.get('authorization'), request.headers.authorization, 'the signer makes it')
  })
}
