import type { Chosen } from '../../schema/objects.js'
import { type Arn, parseArn } from './aws-arn.js'
import { AwsService } from './aws-service.js'
import { type Kind, type SenderParts, textOf } from './kind.js'
import type { Sender } from './sender.js'

export interface AwsKindOptions {
  /** The member of the target that names what is written to. */
  readonly member: string
  readonly service: string
  /** What is written to, behind the account in its ARN; its first group is its name. */
  readonly resource: RegExp
  open(service: AwsService, at: { readonly arn: string; readonly name: string }, parts: SenderParts): Sender
}

const NO_ROLE = 'this version assumes no roles: give the destination a key of its own (auth.creds)'

/** A target at AWS. The way there is guarded as every other: only public addresses, unless they are allowed. */
export function awsKind({ member, service, resource, open }: AwsKindOptions): Kind {
  const find = (body: Readonly<Record<string, unknown>>): { arn: Arn; name: string } | undefined => {
    const arn = parseArn(textOf(body[member]))
    const name = arn?.service === service ? resource.exec(arn.resource)?.[1] : undefined
    return arn === undefined || name === undefined ? undefined : { arn, name }
  }
  return {
    unsupported(body) {
      if ((body.auth as Chosen).name !== 'creds') return NO_ROLE
      if (find(body) === undefined) return `${member} names nothing of ${service} in a region that is known here`
      return undefined
    },
    open({ body, secret }, parts) {
      const found = find(body)
      if (found === undefined) throw new TypeError('an unsupported target is opened')
      const { arn, name } = found
      const { value } = body.auth as Chosen
      const key = { id: textOf(value.aws_access_key_id), secret: secret('auth.creds.aws_secret_access_key') ?? '' }
      const { outbound, clock } = parts
      return open(new AwsService({ arn, key, outbound, clock }), { arn: textOf(body[member]), name }, parts)
    }
  }
}
