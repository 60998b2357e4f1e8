// Times a query at the server of Apple's library, on one thread, from the bytes of the request to those of the
// response, with the client's key in memory: `AppleServer ENTRIES VALUE_BYTES SET RUNS`.
//
// Prints one JSON object with the members of `apple-bench` (crates/apple/examples/bench.rs), which has the same
// keywords and values, and two tables in one shard as well. Times are the least of the runs.

import Foundation
import HomomorphicEncryption
import HomomorphicEncryptionProtobuf
import PrivateInformationRetrieval
import PrivateInformationRetrievalProtobuf

typealias Scheme = Bfv<UInt32>
typealias Server = KeywordPirServer<MulPirServer<Scheme>>
typealias Client = KeywordPirClient<MulPirClient<Scheme>>
typealias Requests = Apple_SwiftHomomorphicEncryption_Api_Pir_V1_Requests
typealias Responses = Apple_SwiftHomomorphicEncryption_Api_Pir_V1_Responses
typealias SerializedKey = Apple_SwiftHomomorphicEncryption_V1_SerializedEvaluationKey

struct Failure: Error {
    let cause: String
}

func seconds(_ clock: clockid_t) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// Returns the least processor time and wall time of several runs, in seconds, and the last result.
func least<T>(_ runs: Int, _ run: () throws -> T) rethrows -> (processor: Double, wall: Double, result: T) {
    var best = (processor: Double.infinity, wall: Double.infinity)
    var result: T?
    for _ in 0..<runs {
        let start = (seconds(CLOCK_PROCESS_CPUTIME_ID), seconds(CLOCK_MONOTONIC))
        result = try run()
        best.processor = min(best.processor, seconds(CLOCK_PROCESS_CPUTIME_ID) - start.0)
        best.wall = min(best.wall, seconds(CLOCK_MONOTONIC) - start.1)
    }
    return (best.processor, best.wall, result!)
}

func keyword(_ i: Int) -> [UInt8] {
    let digits = String(i)
    return [UInt8](("+1555" + String(repeating: "0", count: 7 - digits.count) + digits).utf8)
}

func value(_ i: Int, _ bytes: Int) -> [UInt8] {
    (0..<bytes).map { UInt8(truncatingIfNeeded: i >> (8 * ($0 % 4))) }
}

let arguments = CommandLine.arguments
guard arguments.count == 5, let entries = Int(arguments[1]), let valueBytes = Int(arguments[2]),
      let set = PredefinedRlweParameters(rawValue: arguments[3]),
      let runs = Int(arguments[4])
else {
    FileHandle.standardError.write(Data("usage: AppleServer ENTRIES VALUE_BYTES SET RUNS\n".utf8))
    exit(2)
}
let context = try Context(encryptionParameters: EncryptionParameters<Scheme>(from: set))
// Buckets of half a plaintext, and dimensions of different lengths, are the defaults of PIRProcessDatabase.
let config = try KeywordPirConfig(
    dimensionCount: 2,
    cuckooTableConfig: .defaultKeywordPir(maxSerializedBucketSize: context.bytesPerPlaintext / 2),
    unevenDimensions: true,
    keyCompression: .noCompression)
let rows = (0..<entries).map { KeywordValuePair(keyword: keyword($0), value: value($0, valueBytes)) }
let prepared = try least(1) { try Server.process(database: rows, config: config, with: context) }
let processed = prepared.result
let server = try Server(context: context, processed: processed)
let client = Client(keywordParameter: config.parameter, pirParameter: processed.pirParameter, context: context)
let secretKey = try context.generateSecretKey()
let keyBytes = try client.generateEvaluationKey(using: secretKey).serialize().proto().serializedData()
let parsedKey = try least(5) {
    let message = try SerializedKey(serializedBytes: keyBytes)
    return try EvaluationKey<Scheme>(deserialize: message.native(), context: context)
}
let asked = entries / 2
let query = try client.generateQuery(at: keyword(asked), using: secretKey).proto()
let request = try Requests.with { requests in
    requests.requests = [.with { request in
        request.usecase = "net.example.lookup.block"
        request.pirRequest = .with {
            $0.query = query
            $0.configurationHash = Data(count: 32)
        }
    }]
}.serializedData()
let answered = try least(runs) {
    let requests = try Requests(serializedBytes: request)
    let query: Query<Scheme> = try requests.requests[0].pirRequest.query.native(context: context)
    let response = try server.computeResponse(to: query, using: parsedKey.result).proto()
    return try Responses.with { $0.responses = [.with { $0.pirResponse = response }] }.serializedData()
}
let responses = try Responses(serializedBytes: answered.result)
let response: Response<Scheme> = try responses.responses[0].pirResponse.native(context: context)
guard try client.decrypt(response: response, at: keyword(asked), using: secretKey) == value(asked, valueBytes) else {
    throw Failure(cause: "the response has another value")
}
let shape = processed.pirParameter.dimensions.map(String.init).joined(separator: ",")
print("""
{"name":"apple_swift","params":"\(arguments[3])","entries":\(entries),"value_bytes":\(valueBytes),"shape":[\(shape)],\
"tables":2,"backend":"swift-homomorphic-encryption","threads":1,"batch":1,"runs":\(runs),\
"seconds":\(answered.processor),"clock":"processor, least of the runs","wall_seconds":\(answered.wall),\
"prepare_seconds":\(prepared.processor),"key_seconds":\(parsedKey.processor)}
""")
