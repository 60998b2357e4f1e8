// A client of Apple's library without HTTP: `AppleClient USE_CASE`.
//
// The program reads messages from its input: the length as 4 little-endian bytes, then a kind and the content. Its
// output is the length, then 0 and the content below, or 1 and an error.
//
// | kind | content | output |
// |---|---|---|
// | `c` | `ConfigResponse` | `EvaluationKeys` of a new secret key |
// | `q` | a keyword | `Requests` |
// | `r` | `Responses` to the last request | 1 and the value, or 0 if the keyword is absent |

import Crypto
import Foundation
import HomomorphicEncryption
import HomomorphicEncryptionProtobuf
import PrivateInformationRetrieval
import PrivateInformationRetrievalProtobuf

typealias Scheme = Bfv<UInt32>
typealias ShardClient = KeywordPirClient<MulPirClient<Scheme>>
typealias ConfigResponse = Apple_SwiftHomomorphicEncryption_Api_Pir_V1_ConfigResponse
typealias Requests = Apple_SwiftHomomorphicEncryption_Api_Pir_V1_Requests
typealias Responses = Apple_SwiftHomomorphicEncryption_Api_Pir_V1_Responses
typealias EvaluationKeys = Apple_SwiftHomomorphicEncryption_Api_Shared_V1_EvaluationKeys
typealias KeyMetadata = Apple_SwiftHomomorphicEncryption_Api_Shared_V1_EvaluationKeyMetadata

struct Failure: Error, CustomStringConvertible {
    let description: String
}

func sha256(_ data: Data) -> Data {
    Data(SHA256.hash(data: data))
}

/// A client with the configuration of a use case, and a secret key of its own.
struct Client {
    let useCase: String
    let configID: Data
    let context: Context<Scheme>
    let secretKey: SecretKey<Scheme>
    let metadata: KeyMetadata
    let keyConfig: EvaluationKeyConfig
    /// Clients of the shards, in their order.
    let shards: [ShardClient]

    init(useCase: String, response: ConfigResponse) throws {
        guard let config = response.configs[useCase] else {
            throw Failure(description: "the response has no configuration of \(useCase)")
        }
        let pir = config.pirConfig
        let hash = pir.evaluationKeyConfigHash
        // The configuration of a key is named by the SHA-256 of its message, as this library writes it.
        guard let status = try response.keyInfo.first(where: { try sha256($0.keyConfig.serializedData()) == hash }) else {
            throw Failure(description: "no key's configuration has the hash that the use case names")
        }
        self.useCase = useCase
        configID = config.configID
        context = try Context(encryptionParameters: pir.encryptionParameters.native())
        secretKey = try context.generateSecretKey()
        let keyConfig = status.keyConfig.native()
        self.keyConfig = keyConfig
        metadata = KeyMetadata.with {
            $0.timestamp = UInt64(Date().timeIntervalSince1970)
            $0.identifier = hash
        }
        shards = pir.shardConfigs.map { [context] shard in
            ShardClient(
                keywordParameter: pir.keywordPirParams.native(),
                pirParameter: shard.native(batchSize: Int(pir.batchSize), evaluationKeyConfig: keyConfig),
                context: context)
        }
    }

    func evaluationKeys() throws -> EvaluationKeys {
        let key = try context.generateEvaluationKey(config: keyConfig, using: secretKey)
        return EvaluationKeys.with { keys in
            keys.keys = [.with {
                $0.metadata = metadata
                $0.evaluationKey = key.serialize().proto()
            }]
        }
    }

    func requests(keyword: [UInt8]) throws -> Requests {
        let shard = keyword.shardIndex(shardCount: shards.count)
        let query = try shards[shard].generateQuery(at: keyword, using: secretKey).proto()
        return Requests.with { requests in
            requests.requests = [.with { request in
                request.usecase = useCase
                request.pirRequest = .with {
                    $0.shardIndex = UInt32(shard)
                    $0.query = query
                    $0.evaluationKeyMetadata = metadata
                    $0.configurationHash = configID
                }
            }]
        }
    }

    func value(keyword: [UInt8], responses: Responses) throws -> [UInt8]? {
        guard responses.responses.count == 1 else {
            throw Failure(description: "\(responses.responses.count) responses to one request")
        }
        let shard = shards[keyword.shardIndex(shardCount: shards.count)]
        let response: Response<Scheme> = try responses.responses[0].pirResponse.native(context: context)
        return try shard.decrypt(response: response, at: keyword, using: secretKey)
    }
}

/// The state between two messages.
struct Conversation {
    let useCase: String
    var client: Client?
    var keyword: [UInt8] = []

    mutating func reply(kind: Character, content: Data) throws -> Data {
        if kind == "c" {
            let client = try Client(useCase: useCase, response: ConfigResponse(serializedBytes: content))
            self.client = client
            return try client.evaluationKeys().serializedData()
        }
        guard let client else {
            throw Failure(description: "a configuration comes first")
        }
        switch kind {
        case "q":
            keyword = [UInt8](content)
            return try client.requests(keyword: keyword).serializedData()
        case "r":
            let value = try client.value(keyword: keyword, responses: Responses(serializedBytes: content))
            return value.map { Data([1]) + Data($0) } ?? Data([0])
        default:
            throw Failure(description: "no message has the kind \(kind)")
        }
    }
}

/// Reads `count` bytes of the input; nil if it ends before.
func read(_ count: Int) -> Data? {
    var data = Data()
    while data.count < count {
        guard let more = try? FileHandle.standardInput.read(upToCount: count - data.count), !more.isEmpty else {
            return nil
        }
        data += more
    }
    return data
}

guard CommandLine.arguments.count == 2 else {
    FileHandle.standardError.write(Data("usage: AppleClient USE_CASE\n".utf8))
    exit(2)
}
var conversation = Conversation(useCase: CommandLine.arguments[1])
while let length = read(4), let message = read(length.reversed().reduce(0) { $0 << 8 | Int($1) }) {
    let output: Data
    do {
        guard let kind = message.first else {
            throw Failure(description: "an empty message")
        }
        let content = Data(message.dropFirst())
        output = try Data([0]) + conversation.reply(kind: Character(UnicodeScalar(kind)), content: content)
    } catch {
        output = Data([1]) + Data("\(error)".utf8)
    }
    let count = (0..<4).map { UInt8(truncatingIfNeeded: output.count >> (8 * $0)) }
    try FileHandle.standardOutput.write(contentsOf: Data(count) + output)
}
