/** Parts of an Amazon Resource Name, as far as they lead to its service. */
export interface Arn {
  readonly partition: string
  readonly service: string
  readonly region: string
  /** Everything behind the account. */
  readonly resource: string
}

/** The domain of the services, by partition. */
const DOMAINS: Readonly<Record<string, string>> = {
  aws: 'amazonaws.com',
  'aws-cn': 'amazonaws.com.cn',
  'aws-us-gov': 'amazonaws.com'
}
// The region becomes a part of a host name.
const ARN = /^arn:([a-z-]+):([a-z]+):([a-z0-9-]{1,32}):\d*:(.+)$/

/** Undefined when it is none, or one of a partition whose services have no address that is known here. */
export function parseArn(text: string): Arn | undefined {
  const [, partition = '', service = '', region = '', resource = ''] = ARN.exec(text) ?? []
  return DOMAINS[partition] === undefined ? undefined : { partition, service, region, resource }
}

/** The base URL of the service that an ARN belongs to. */
export function endpointOf({ partition, service, region }: Arn): string {
  return `https://${service}.${region}.${DOMAINS[partition]}/`
}
